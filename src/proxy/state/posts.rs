//! Lookouts that keep their post after their own rank has left, for the other ranks of its node.

use super::{Alarm, OnAlarm, OnDeath, State};
use crate::base::Rank;
use crate::transport::segment::Nonce;
use std::sync::Arc;

/// A lookout whose own rank has left. All calls are made outside locks; but for `exit`, none may
/// wait.
pub trait Staying: Send + Sync {
    /// A rank of the node raises an alarm.
    fn alarmed(&self, why: Alarm);

    /// The process of these ranks of the node has ended before they left.
    fn died(&self, ranks: &[Rank], text: &str);

    /// All ranks have left, as far as this process can see: nobody needs the lookout any more.
    fn relieved(&self);

    /// This process exits.
    fn exit(&self);
}

/// What is known of one who stays.
pub(super) struct Post {
    keeper: Arc<dyn Staying>,
    pub on_alarm: OnAlarm,
    pub on_death: OnDeath,
    /// Its host, for messages.
    pub node: String,
}

impl State {
    /// A lookout stays though its rank, the watcher, is about to leave.
    pub fn stay(&mut self, nonce: Nonce, id: u64, keeper: Arc<dyn Staying>) {
        let mut watchers = self.watchers.get(&nonce).into_iter().flatten();
        let Some(watcher) = watchers.find(|watcher| watcher.id == id) else {
            return;
        };
        let (alarmed, bereft) = (keeper.clone(), keeper.clone());
        let post = Post {
            keeper,
            on_alarm: Arc::new(move |why| alarmed.alarmed(why)),
            on_death: Arc::new(move |ranks, text| bereft.died(ranks, text)),
            node: watcher.node.clone(),
        };
        self.posts.entry(nonce).or_default().push(post);
    }

    /// All who stay.
    pub fn staying(&self) -> Vec<Arc<dyn Staying>> {
        let posts = self.posts.values().flatten();
        posts.map(|post| post.keeper.clone()).collect()
    }

    /// Relieves those who stay where the last rank has left.
    pub(super) fn relieve(&mut self, nonce: Nonce) {
        let mut links = self.links.values();
        let is_used = links.any(|link| link.uses.get(&nonce).is_some_and(|it| !it.is_empty()));
        if is_used || self.watchers.contains_key(&nonce) {
            return;
        }
        let Some(posts) = self.posts.remove(&nonce) else {
            return;
        };
        let keepers = posts.into_iter().map(|post| post.keeper);
        self.relieved.extend(keepers);
        for link in self.links.values_mut() {
            link.uses.remove(&nonce);
        }
        self.close_unused();
    }
}
