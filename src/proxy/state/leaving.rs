//! A rank of this process that leaves its communicator in good order.

use super::super::frame::{Frame, ServiceKind};
use super::{State, posts};
use crate::transport::segment::Nonce;

/// Ends a watch: says goodbye to everyone who knows the rank, and lets go of links that no
/// communicator of this process needs any more.
pub fn unwatch(state: &mut State, nonce: Nonce, id: u64) {
    let Some(watchers) = state.watchers.get_mut(&nonce) else {
        return;
    };
    let Some(at) = watchers.iter().position(|watcher| watcher.id == id) else {
        return;
    };
    let rank = watchers.swap_remove(at).rank;
    let mut last = watchers.is_empty();
    if last {
        state.watchers.remove(&nonce);
        // Who stays still hears of the others.
        last = !state.posts.contains_key(&nonce);
    }
    state.tell_gone(nonce, &[rank]);
    let mut bye = Frame::new(ServiceKind::Bye, 0, nonce.0);
    bye.rank = rank.0;
    for link in state.links.values_mut() {
        if link.uses.contains_key(&nonce) {
            link.post(bye);
        }
        if last {
            link.uses.remove(&nonce);
        }
    }
    state.close_unused();
    posts::relieve(state, nonce);
}
