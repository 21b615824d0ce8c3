//! Facts and memory that a communicator on one node hands to those that are split from it
//! ([`super::kin`]).

use super::device::card::DeviceCard;
use crate::base::Rank;
use crate::comm::failing::deaths::Deaths;
use crate::plan::Nodes;
use crate::proxy::service::Address;
use crate::topo::RankPlace;
use crate::transport::segment::Segment;
use crate::tune::stores::Stores;
use std::sync::Arc;

/// Facts and memory of a communicator on one node, for its children.
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
    /// The devices of its ranks, if they have any.
    pub devices: Option<Vec<DeviceCard>>,
}

impl Kin {
    /// The services of the members of a child.
    pub fn services_of(&self, members: &[u32]) -> Vec<Address> {
        let members = members.iter();
        members.map(|&old| self.services[old as usize]).collect()
    }

    /// The members of a child, by their ranks in the first communicator.
    pub fn in_first_of(&self, members: &[u32]) -> Arc<[Rank]> {
        let members = members.iter();
        members.map(|&old| self.in_first[old as usize]).collect()
    }

    /// The devices of the members of a child.
    pub fn devices_of(&self, members: &[u32]) -> Option<Vec<DeviceCard>> {
        let devices = self.devices.as_ref()?;
        Some(members.iter().map(|&old| devices[old as usize]).collect())
    }

    /// Where the members of a child run, by their ranks there.
    pub fn places_of(&self, members: &[u32]) -> Vec<RankPlace> {
        let place = |(rank, &old): (u32, &u32)| RankPlace {
            rank: Rank(rank),
            ..self.places[old as usize].clone()
        };
        (0..).zip(members).map(place).collect()
    }
}
