//! The call in which a rank waits, as warnings and errors name it.

use super::call::Collective;
use super::checked::Checked;
use crate::wire::board::SendNote;

/// The call in which a rank waits.
#[derive(Clone, Copy)]
pub(in crate::comm) struct WaitingCall {
    pub name: &'static str,
    /// Its number, if it is a collective.
    pub number: Option<u64>,
    /// The message that it sends, if it does nothing else.
    pub sends: SendNote,
}

impl From<(&'static str, Option<u64>)> for WaitingCall {
    #[inline(always)]
    fn from((name, number): (&'static str, Option<u64>)) -> WaitingCall {
        let sends = SendNote::NOTHING;
        WaitingCall {
            name,
            number,
            sends,
        }
    }
}

impl WaitingCall {
    /// A call that waits for nothing but its own data: no earlier one is in flight.
    #[inline(always)]
    pub fn of(checked: &Checked, number: Option<u64>) -> WaitingCall {
        let call = &checked.call;
        WaitingCall {
            name: call.collective.name(),
            number,
            sends: match call.collective {
                Collective::Send => SendNote::message(call.peer, checked.bytes),
                _ => SendNote::NOTHING,
            },
        }
    }
}
