//! Error completions as sentences: which port, which peer, what the adapter says, what to do.

use crate::settings::Settings;
use crate::verbs::constant;
use ibverbs_sys::{self as ib, ibv_wc_status as status};
use kolo::base::{Code, Error};

/// Explains an error completion.
///
/// `here` and `peer` name the two ports; `vendor` is the adapter's own code.
pub fn completion(
    what: status::Type,
    vendor: u32,
    here: &str,
    peer: &str,
    settings: &Settings,
) -> Error {
    // SAFETY: the text of a status is constant.
    let words = unsafe { constant(ib::ibv_wc_status_str(what)) };
    let retry = || {
        format!(
            "see whether the peer's job step has ended, and check cable, switch and port of both \
             ends (`ibv_devinfo`); for links that come back later raise KOLO_IB_TIMEOUT ({} now) \
             or KOLO_IB_RETRY_CNT ({} now)",
            settings.timeout, settings.retry_count
        )
    };
    let (code, meaning, remedy) = match what {
        status::IBV_WC_RETRY_EXC_ERR => (Code::RemoteError, "the peer does not answer", retry()),
        status::IBV_WC_RNR_RETRY_EXC_ERR => (
            Code::RemoteError,
            "the peer has no receive posted",
            report(),
        ),
        status::IBV_WC_REM_ACCESS_ERR | status::IBV_WC_REM_INV_REQ_ERR => (
            Code::RemoteError,
            "the peer's adapter refuses the memory that was named",
            "keep receive buffers registered and mapped until their receives are done".into(),
        ),
        status::IBV_WC_LOC_PROT_ERR => (
            Code::InvalidUsage,
            "this adapter may not use the memory that was named",
            "keep send buffers registered and mapped until their messages are done".into(),
        ),
        status::IBV_WC_WR_FLUSH_ERR => (
            Code::RemoteError,
            "the queue pair stopped before this work",
            "look for an earlier message about this port, here or at the peer".into(),
        ),
        status::IBV_WC_FATAL_ERR | status::IBV_WC_GENERAL_ERR | status::IBV_WC_LOC_QP_OP_ERR => (
            Code::SystemError,
            "this adapter failed",
            "see `dmesg` for messages of its driver".into(),
        ),
        status::IBV_WC_REM_OP_ERR | status::IBV_WC_REM_ABORT_ERR => (
            Code::RemoteError,
            "the peer's adapter failed",
            "see `dmesg` of the peer's node for messages of its driver".into(),
        ),
        _ => (Code::InternalError, "this was not expected", report()),
    };
    Error::new(
        code,
        format!(
            "RDMA from {here} to {peer}: {meaning} (\"{words}\", status {what}, vendor code \
             {vendor:#x})"
        ),
        remedy,
    )
}

fn report() -> String {
    "this is a fault in kolo: please report it with the output of `kolo info`".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_a_sentence_with_a_remedy() {
        let settings = crate::settings::read().unwrap();
        for what in 1..=status::IBV_WC_GENERAL_ERR {
            let error = completion(
                what,
                0x81,
                "rxe0 port 1",
                "rxe1 port 1 (10.0.0.2)",
                &settings,
            );
            for part in ["rxe0 port 1", "10.0.0.2", "0x81", "status"] {
                assert!(error.what.contains(part), "{error}");
            }
            assert!(error.remedy.len() > 20, "{error}");
        }
        let error = completion(status::IBV_WC_RETRY_EXC_ERR, 0, "a", "b", &settings);
        assert_eq!(error.code, Code::RemoteError);
        assert!(error.remedy.contains("KOLO_IB_TIMEOUT (19 now)"), "{error}");
    }
}
