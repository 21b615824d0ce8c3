//! The options of the networks that are libraries of their own, RDMA (`libkolo_verbs`) and
//! libfabric (`libkolo_ofi`), which go behind those of the table.
//!
//! The libraries read these names by themselves where another program loads them;
//! docs/net-verbs.md and docs/net-ofi.md say more of each.

/// Expands to the whole table: the entries that it is given, and those of these networks.
macro_rules! with_verbs_options {
    ($($others:tt)*) => {
        options! {
            $($others)*

            /// Beginnings of the names of the RDMA devices that may be used, such as
            /// `mlx5_0:1,mlx5_2`; `^` excludes, `=` compares whole names, `:1` means one port.
            ib_hca -> Option<&PrefixList> {
                kind: Kind::Ports,
                tag: Tag::Site,
                aliases: &[same("NCCL_IB_HCA")],
            }

            /// Do not use RDMA devices, even where there are some.
            ib_disable -> bool {
                kind: Kind::Bool,
                default: "false",
                tag: Tag::Site,
                aliases: &[same("NCCL_IB_DISABLE")],
            }

            /// Place of the address to use in the table of each port (`show_gids`); `auto` prefers
            /// RoCE v2 with an IPv4 address.
            ib_gid_index -> Option<u32> {
                kind: Kind::Int { least: 0, most: 255, zero: Some("auto") },
                default: "auto",
                tag: Tag::Site,
                aliases: &[Alias { name: "NCCL_IB_GID_INDEX", translate: nccl_index }],
                note: "-1 in `NCCL_IB_GID_INDEX` means `auto`.",
            }

            /// Queue pairs of one connection; messages go by one after the other.
            ib_qps_per_connection -> u32 {
                kind: Kind::Int { least: 1, most: 16, zero: None },
                default: "1",
                unit: "queue pairs",
                tag: Tag::Site,
                aliases: &[same("NCCL_IB_QPS_PER_CONNECTION")],
                note: "More than one helps where switches choose a way for each queue pair.",
            }

            /// Spread every message over all queue pairs of its connection.
            ib_split_data_on_qps -> bool {
                kind: Kind::Bool,
                default: "false",
                tag: Tag::Site,
                aliases: &[same("NCCL_IB_SPLIT_DATA_ON_QPS")],
            }

            /// Traffic class of RDMA packets; `auto` is what the program asks for, else 0.
            ib_tc -> Option<u32> {
                kind: Kind::Int { least: 0, most: 255, zero: Some("auto") },
                default: "auto",
                tag: Tag::Site,
                aliases: &[Alias { name: "NCCL_IB_TC", translate: nccl_index }],
            }

            /// Service level of RDMA packets.
            ib_sl -> u32 {
                kind: Kind::Int { least: 0, most: 15, zero: None },
                default: "0",
                tag: Tag::Site,
                aliases: &[same("NCCL_IB_SL")],
            }

            /// How long an RDMA device waits for an answer before it sends again: 4.096
            /// microseconds times 2 to this power, 2.1 seconds for 19.
            ib_timeout -> u32 {
                kind: Kind::Int { least: 1, most: 31, zero: None },
                default: "19",
                tag: Tag::Site,
                aliases: &[same("NCCL_IB_TIMEOUT")],
            }

            /// How often it sends again before the connection counts as lost.
            ib_retry_cnt -> u32 {
                kind: Kind::Int { least: 0, most: 7, zero: None },
                default: "6",
                tag: Tag::Site,
                aliases: &[same("NCCL_IB_RETRY_CNT")],
                note: "Some devices take 7 for no limit at all; `net_link_timeout` ends such a \
                       connection too.",
            }

            /// Provider of libfabric, such as `cxi`, `efa`, `opx`, `psm3` or `tcp`. One that is
            /// named lets `net` = `auto` take libfabric, behind plugin and verbs. Not set, only
            /// `net` = `ofi` does, by the best one: those that drive a fabric of their own first.
            ofi_provider -> Option<&str> {
                kind: Kind::Text,
                tag: Tag::Site,
                note: "docs/net-ofi.md says what each provider needs. libfabric's own variables \
                       (`FI_*`) hold beside it.",
            }
        }
    };
}
