//! The options that say which ranks plans take for neighbours, which go behind those of the table.

/// Expands to the whole table: the entries that it is given, those of this file, and the others.
macro_rules! with_planning_options {
    ($($others:tt)*) => {
        with_start_options! {
            $($others)*

            /// Let the algorithms `leader` and `hier` see which ranks share a cache and a socket,
            /// and go level by level; off, they see nodes only.
            levels -> bool {
                kind: Kind::Bool,
                default: "true",
                shapes: true,
                note: "Ranks share what all of their processors are in: `kolo explain` and \
                       `KOLO_DEBUG=info` say what was found. The order of folding follows it.",
            }

            /// Plan as if every so many consecutive ranks of a node were a node, to try plans for
            /// many nodes on one machine; `auto` takes the nodes as they are.
            ranks_per_node -> Option<u32> {
                kind: Kind::Int { least: 1, most: 1 << 30, zero: Some("auto") },
                default: "auto",
                unit: "ranks",
                shapes: true,
                tag: Tag::Debug,
            }

            /// Plan as if every so many consecutive ranks of a node shared a last-level cache, to
            /// try plans for large nodes on a small one; `auto` takes the caches as they are.
            ranks_per_cache -> Option<u32> {
                kind: Kind::Int { least: 1, most: 1 << 30, zero: Some("auto") },
                default: "auto",
                unit: "ranks",
                shapes: true,
                tag: Tag::Debug,
            }

            /// Plan as if every so many consecutive ranks of a node shared a socket; `auto` takes
            /// the sockets as they are.
            ranks_per_socket -> Option<u32> {
                kind: Kind::Int { least: 1, most: 1 << 30, zero: Some("auto") },
                default: "auto",
                unit: "ranks",
                shapes: true,
                tag: Tag::Debug,
            }
        }
    };
}
