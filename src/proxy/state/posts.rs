//! Lookouts that keep their post after their own rank has left, for the other ranks of its node.

use super::State;
use super::alarm::{Last, Post, Staying};
use crate::transport::segment::Nonce;
use std::sync::Arc;

/// A lookout stays though its rank, the watcher, is about to leave.
pub fn stay(state: &mut State, nonce: Nonce, id: u64, keeper: Arc<dyn Staying>) {
    let Some(watcher) = state.watcher(nonce, id) else {
        return;
    };
    // Where the watch goes on for other reasons, alarms are to be heard once.
    watcher.on_alarm = None;
    let (alarmed, bereft) = (keeper.clone(), keeper.clone());
    let post = Post {
        keeper,
        on_alarm: Arc::new(move |why| alarmed.alarmed(why)),
        on_death: Arc::new(move |ranks, text| bereft.died(ranks, text)),
        node: watcher.node.clone(),
        relieved: false,
    };
    state.posts.entry(nonce).or_default().push(post);
}

/// All who stay.
pub fn staying(state: &State) -> Vec<Last> {
    let behind = |nonce| {
        let watchers = state.watchers.get(nonce).into_iter().flatten();
        watchers.map(|watcher| watcher.rank).collect()
    };
    let posts = state.posts.iter();
    let posts = posts.flat_map(|(nonce, posts)| posts.iter().map(move |post| (nonce, post)));
    posts
        .map(|(nonce, post)| Last {
            keeper: post.keeper.clone(),
            node: post.node.clone(),
            behind: behind(nonce),
        })
        .collect()
}

/// Those who are saying goodbye.
pub fn parting(state: &State, nonce: Nonce) -> Vec<Arc<dyn Staying>> {
    let posts = state.posts.get(&nonce).into_iter().flatten();
    posts
        .filter(|post| post.relieved)
        .map(|post| post.keeper.clone())
        .collect()
}

/// This one is gone.
pub fn parted(state: &mut State, nonce: Nonce, keeper: &Arc<dyn Staying>) {
    if let Some(posts) = state.posts.get_mut(&nonce) {
        posts.retain(|post| !Arc::ptr_eq(&post.keeper, keeper));
        if posts.is_empty() {
            state.posts.remove(&nonce);
        }
    }
}

/// Relieves those who stay where the last rank has left.
pub fn relieve(state: &mut State, nonce: Nonce) {
    let mut links = state.links.values();
    let is_used = links.any(|link| link.uses.get(&nonce).is_some_and(|it| !it.is_empty()));
    if is_used || state.watchers.contains_key(&nonce) {
        return;
    }
    let Some(posts) = state.posts.get_mut(&nonce) else {
        return;
    };
    for post in posts.iter_mut().filter(|post| !post.relieved) {
        post.relieved = true;
        state.relieved.push(post.keeper.clone());
    }
    for link in state.links.values_mut() {
        link.uses.remove(&nonce);
    }
    state.close_unused();
}
