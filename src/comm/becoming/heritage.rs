//! What a communicator on one node has for those that are split from it ([`super::kin`]).

use crate::base::Rank;
use crate::comm::failing::deaths::Deaths;
use crate::plan::Nodes;
use crate::proxy::service::Address;
use crate::topo::RankPlace;
use crate::transport::segment::Segment;
use crate::tune::stores::Stores;
use std::sync::Arc;

/// What a communicator on one node has for its children.
pub(in crate::comm) struct Kin {
    /// Where each rank runs.
    pub places: Vec<RankPlace>,
    /// The service of each rank's process.
    pub services: Vec<Address>,
    /// In which orders plans pass the ranks.
    pub nodes: Nodes,
    /// How slots are written.
    pub stores: Stores,
    pub segment: Arc<Segment>,
    /// Hears of deaths first: those of the communicator that all others were split from.
    pub first: Arc<Deaths>,
    /// The ranks there of the ranks here.
    pub in_first: Arc<[Rank]>,
}

impl Kin {
    /// Where the members of a child run, by their ranks there.
    pub fn places_of(&self, members: &[u32]) -> Vec<RankPlace> {
        let place = |(rank, &old): (u32, &u32)| RankPlace {
            rank: Rank(rank),
            ..self.places[old as usize].clone()
        };
        (0..).zip(members).map(place).collect()
    }
}
