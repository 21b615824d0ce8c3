//! Sent data arrive before the process is gone, though nothing is closed.

use super::links::Links;
use super::meet::Outgoing;

/// One look of an exit whether the other nodes have what was sent so far.
pub fn has_arrived(links: &Links, is_last: bool) -> bool {
    // Ranks of this node that send for this one go on until all is there.
    let is_sent = links.through.has_ended(is_last);
    let is_on_its_way = |link: &mut Option<Box<Outgoing>>| match link.as_deref_mut() {
        Some(Outgoing::Up(link)) => !link.is_settled(),
        _ => false,
    };
    links.failed() || is_sent && !links.lock().outgoing.iter_mut().any(is_on_its_way)
}
