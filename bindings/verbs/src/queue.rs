//! Queue pairs: made, connected to one other, given work.

use crate::verbs::{Completions, Domain, REMOTE_READ, REMOTE_WRITE, refusal};
use ib::{ibv_qp_attr_mask as mask, ibv_qp_state as state, ibv_wr_opcode as opcode};
use ibverbs_sys as ib;
use kolo::base::{Error, Result};
use std::sync::Arc;

/// How the far end is reached, beside its number.
#[derive(Clone, Debug)]
pub struct Path {
    pub port: u8,
    pub mtu: u32,
    /// InfiniBand's number of the far port.
    pub lid: u16,
    /// The far address, for RoCE and for routes between subnets.
    pub gid: [u8; 16],
    /// This end's place in its table of addresses.
    pub gid_index: u32,
    pub is_global: bool,
    pub service_level: u8,
    pub traffic_class: u8,
    pub timeout: u8,
    pub retry_count: u8,
    /// Reads that this end may have under way.
    pub reads: u8,
    /// Reads of the peer that this end may be answering.
    pub answers: u8,
}

/// A reliable connection between two adapters.
pub struct Queue {
    raw: *mut ib::ibv_qp,
    /// Work that may still be posted to send.
    pub room: u32,
    /// Number of its first packet.
    pub first_packet: u32,
    _domain: Arc<Domain>,
}

// SAFETY: libibverbs allows any thread to use it; its one owner uses it on one at a time.
unsafe impl Send for Queue {}

/// One piece of work: a write, or a read, between local and remote memory.
#[derive(Clone, Copy)]
pub struct Work {
    pub id: u64,
    pub kind: Kind,
    pub local: u64,
    pub local_key: u32,
    pub bytes: u32,
    pub remote: u64,
    pub remote_key: u32,
    /// Whether its completion is told.
    pub told: bool,
}

/// Kinds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Write,
    /// A write whose end completes a receive at the far side, with this value.
    WriteWith(u32),
    Read,
}

fn check(code: i32, doing: &str) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(Error::system(
            format!("cannot {doing}"),
            &refusal(code),
            "check that the addresses of both ports reach each other (`rping`, `ibv_rc_pingpong`) \
             and that KOLO_IB_GID_INDEX names addresses of one kind",
        )),
    }
}

impl Queue {
    /// Makes a queue pair that tells all completions to one queue.
    pub fn new(
        domain: &Arc<Domain>,
        completions: &Completions,
        sends: u32,
        receives: u32,
        port: u8,
    ) -> Result<Queue> {
        let mut wishes = ib::ibv_qp_init_attr {
            send_cq: completions.raw,
            recv_cq: completions.raw,
            qp_type: ib::ibv_qp_type::IBV_QPT_RC,
            ..Default::default()
        };
        wishes.cap.max_send_wr = sends;
        wishes.cap.max_recv_wr = receives;
        wishes.cap.max_send_sge = 1;
        wishes.cap.max_recv_sge = 1;
        // SAFETY: domain and completion queue are alive, and `wishes` is filled.
        let raw = unsafe { ib::ibv_create_qp(domain.raw, &raw mut wishes) };
        if raw.is_null() {
            return Err(Error::system(
                format!("cannot make a queue pair for {sends} sends and {receives} receives"),
                &std::io::Error::last_os_error(),
                "lower KOLO_IB_QPS_PER_CONNECTION, or use fewer connections of this adapter",
            ));
        }
        let mut random = [0; 4];
        // Any number will do: it only keeps packets of an earlier connection apart.
        let _ = getrandom::fill(&mut random);
        let queue = Queue {
            raw,
            room: sends,
            first_packet: u32::from_le_bytes(random) & 0xff_ffff,
            _domain: domain.clone(),
        };
        let mut wishes = ib::ibv_qp_attr {
            qp_state: state::IBV_QPS_INIT,
            port_num: port,
            qp_access_flags: REMOTE_WRITE | REMOTE_READ,
            ..Default::default()
        };
        let which = mask::IBV_QP_STATE
            | mask::IBV_QP_PKEY_INDEX
            | mask::IBV_QP_PORT
            | mask::IBV_QP_ACCESS_FLAGS;
        queue.modify(&mut wishes, which, "prepare a queue pair")?;
        Ok(queue)
    }

    fn modify(&self, wishes: &mut ib::ibv_qp_attr, which: mask, doing: &str) -> Result<()> {
        // SAFETY: the queue pair is alive, and the fields that `which` names are filled.
        check(
            unsafe { ib::ibv_modify_qp(self.raw, wishes, which.0 as i32) },
            doing,
        )
    }

    /// Its number on this adapter.
    pub fn number(&self) -> u32 {
        // SAFETY: the queue pair is alive.
        unsafe { (*self.raw).qp_num }
    }

    /// Connects it to the far queue pair; from then on it receives and sends.
    pub fn connect(&self, number: u32, first_packet: u32, path: &Path) -> Result<()> {
        let mut wishes = ib::ibv_qp_attr {
            qp_state: state::IBV_QPS_RTR,
            path_mtu: path.mtu,
            dest_qp_num: number,
            rq_psn: first_packet,
            max_dest_rd_atomic: path.answers.max(1),
            min_rnr_timer: 12,
            ..Default::default()
        };
        wishes.ah_attr.port_num = path.port;
        wishes.ah_attr.dlid = path.lid;
        wishes.ah_attr.sl = path.service_level;
        if path.is_global {
            wishes.ah_attr.is_global = 1;
            wishes.ah_attr.grh.dgid.raw = path.gid;
            wishes.ah_attr.grh.sgid_index = path.gid_index as u8;
            wishes.ah_attr.grh.hop_limit = 255;
            wishes.ah_attr.grh.traffic_class = path.traffic_class;
        }
        let which = mask::IBV_QP_STATE
            | mask::IBV_QP_AV
            | mask::IBV_QP_PATH_MTU
            | mask::IBV_QP_DEST_QPN
            | mask::IBV_QP_RQ_PSN
            | mask::IBV_QP_MAX_DEST_RD_ATOMIC
            | mask::IBV_QP_MIN_RNR_TIMER;
        self.modify(&mut wishes, which, "connect a queue pair to its peer")?;
        let mut wishes = ib::ibv_qp_attr {
            qp_state: state::IBV_QPS_RTS,
            sq_psn: self.first_packet,
            timeout: path.timeout,
            retry_cnt: path.retry_count,
            // Receives are always posted before they are announced, so this is never needed.
            rnr_retry: 7,
            max_rd_atomic: path.reads.max(1),
            ..Default::default()
        };
        let which = mask::IBV_QP_STATE
            | mask::IBV_QP_TIMEOUT
            | mask::IBV_QP_RETRY_CNT
            | mask::IBV_QP_RNR_RETRY
            | mask::IBV_QP_SQ_PSN
            | mask::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(&mut wishes, which, "start a queue pair")
    }

    /// Ends all work: nothing is sent or received from now on.
    pub fn stop(&self) {
        let mut wishes = ib::ibv_qp_attr {
            qp_state: state::IBV_QPS_ERR,
            ..Default::default()
        };
        // A queue pair that is broken already may refuse; it is stopped then.
        drop(self.modify(&mut wishes, mask::IBV_QP_STATE, "stop a queue pair"));
    }

    /// Posts work, in this order.
    ///
    /// # Safety
    /// The local memory stays registered and untouched until the work has completed.
    pub unsafe fn post(&mut self, work: &[Work]) -> Result<()> {
        for one in work {
            let mut place = ib::ibv_sge {
                addr: one.local,
                length: one.bytes,
                lkey: one.local_key,
            };
            let mut request = ib::ibv_send_wr {
                wr_id: one.id,
                sg_list: &raw mut place,
                num_sge: i32::from(one.bytes != 0),
                ..Default::default()
            };
            request.wr.rdma.remote_addr = one.remote;
            request.wr.rdma.rkey = one.remote_key;
            request.opcode = match one.kind {
                Kind::Write => opcode::IBV_WR_RDMA_WRITE,
                Kind::Read => opcode::IBV_WR_RDMA_READ,
                Kind::WriteWith(value) => {
                    request.__bindgen_anon_1.imm_data = value.to_be();
                    opcode::IBV_WR_RDMA_WRITE_WITH_IMM
                }
            };
            if one.told {
                request.send_flags = ib::ibv_send_flags::IBV_SEND_SIGNALED.0;
            }
            let mut bad = std::ptr::null_mut();
            // SAFETY: the queue pair is alive, the request is complete, and the caller keeps the
            // memory; every device has this function.
            let code = unsafe {
                let post = (*(*self.raw).context)
                    .ops
                    .post_send
                    .expect("every device sends");
                post(self.raw, &raw mut request, &raw mut bad)
            };
            check(code, "post work to a queue pair")?;
            self.room = self.room.saturating_sub(1);
        }
        Ok(())
    }

    /// Posts receives that take no data: each one lets one immediate value in.
    pub fn post_receives(&mut self, count: u32) -> Result<()> {
        for _ in 0..count {
            let mut request = ib::ibv_recv_wr::default();
            let mut bad = std::ptr::null_mut();
            // SAFETY: the queue pair is alive and the request has no memory.
            let code = unsafe {
                let post = (*(*self.raw).context)
                    .ops
                    .post_recv
                    .expect("every device receives");
                post(self.raw, &raw mut request, &raw mut bad)
            };
            check(code, "post a receive to a queue pair")?;
        }
        Ok(())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: made by `ibv_create_qp`; its owner drops it once, before its completion queue.
        unsafe { ib::ibv_destroy_qp(self.raw) };
    }
}
