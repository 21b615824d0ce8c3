//! Through which rank of its node a rank sends over a NIC.
//!
//! **Idea.** With the setting `pxn` channel c uses NIC number c (modulo their number) at both ends,
//! so that equal NICs meet. Where a rank is far from that NIC and another rank of the node is
//! beside it, the latter sends in its place (PXN): data then cross the link between the sockets
//! once, by stores into cache lines that the near rank reads, and not as reads of a device. With
//! [`Pxn::Always`] all ranks of a node send through one rank for each NIC, whose progress thread
//! goes on while they compute.
//!
//! Here ranks own processors. Which NIC a GPU uses, and through which GPU, is in [`super::nic`].

use super::{CpuSet, RankPlace};
use crate::base::Rank;

/// When a rank sends through another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pxn {
    /// Where another rank of the node is beside the NIC, and the rank itself is not.
    Nearer,
    /// All ranks of the node send through one rank for each NIC.
    Always,
}

/// For each NIC, the rank through which `me` sends over it, if it is another one: a pure function
/// with the same answer on all ranks of the node. `local` are the places of all ranks of the node;
/// `nics` are the PUs beside each NIC, `None` where nobody knows (virtual ones).
pub fn proxy_ranks(
    me: Rank,
    local: &[&RankPlace],
    nics: &[Option<CpuSet>],
    pxn: Pxn,
) -> Vec<Option<Rank>> {
    let of_nic = |(nic, near): (usize, &Option<CpuSet>)| {
        let is_beside = |place: &&&RankPlace| match near {
            Some(near) => !place.cpus.intersection(near).is_empty(),
            None => true,
        };
        let beside: Vec<Rank> = local
            .iter()
            .filter(is_beside)
            .map(|place| place.rank)
            .collect();
        let index = local.iter().position(|place| place.rank == me)?;
        // NICs at the same place are served by different ranks, if there are several.
        let turn = nics[..nic].iter().filter(|other| *other == near).count();
        let chosen = match pxn {
            Pxn::Always if beside.is_empty() => Some(local[turn % local.len()].rank),
            Pxn::Nearer if beside.is_empty() => None,
            Pxn::Always => Some(beside[turn % beside.len()]),
            Pxn::Nearer if beside.contains(&me) => None,
            // Those who are far take turns with those who are near.
            Pxn::Nearer => Some(beside[(index + nic) % beside.len()]),
        };
        chosen.filter(|&rank| rank != me)
    };
    nics.iter().enumerate().map(of_nic).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(rank: u32, cpus: &str) -> RankPlace {
        let cpus = CpuSet::parse_list(cpus).unwrap();
        RankPlace {
            rank: Rank(rank),
            host: "node1".into(),
            host_hash: 1,
            boot_id: String::new(),
            pid: 1,
            process: 0,
            cores: cpus.clone(),
            cpus,
            quota: None,
            numa: CpuSet::new(),
            sharing: Default::default(),
        }
    }

    fn chosen(places: &[RankPlace], near: &[Option<&str>], pxn: Pxn) -> Vec<Vec<Option<u32>>> {
        let local: Vec<&RankPlace> = places.iter().collect();
        let near: Vec<_> = near
            .iter()
            .map(|list| list.map(|list| CpuSet::parse_list(list).unwrap()))
            .collect();
        let of = |place: &RankPlace| {
            let ranks = proxy_ranks(place.rank, &local, &near, pxn);
            ranks.into_iter().map(|rank| rank.map(|it| it.0)).collect()
        };
        places.iter().map(of).collect()
    }

    /// Two sockets of four cores, a NIC at each, two ranks on each.
    fn two_sockets() -> Vec<RankPlace> {
        let cpus = ["0", "1", "4", "5"];
        (4..8)
            .zip(cpus)
            .map(|(rank, cpus)| place(rank, cpus))
            .collect()
    }

    const NICS: [Option<&str>; 2] = [Some("0-3"), Some("4-7")];

    #[test]
    fn those_who_are_far_send_through_those_who_are_near() {
        let expected = vec![
            vec![None, Some(7)],
            vec![None, Some(6)],
            vec![Some(4), None],
            vec![Some(5), None],
        ];
        assert_eq!(chosen(&two_sockets(), &NICS, Pxn::Nearer), expected);
    }

    #[test]
    fn all_send_through_one_rank_of_each_nic() {
        let one = vec![vec![None, Some(6)], vec![Some(4), Some(6)]];
        let other = vec![vec![Some(4), None], vec![Some(4), Some(6)]];
        let expected = [one, other].concat();
        assert_eq!(chosen(&two_sockets(), &NICS, Pxn::Always), expected);
        // Two NICs on each socket, numbered by turns.
        let four = [NICS[0], NICS[1], NICS[0], NICS[1]];
        let third = chosen(&two_sockets(), &four, Pxn::Always).swap_remove(2);
        assert_eq!(third, [Some(4), None, Some(5), Some(7)]);
        // Of NICs whose place nobody knows, each has a rank of its own.
        let unknown = chosen(&two_sockets(), &[None; 2], Pxn::Always);
        assert_eq!(unknown[2], [Some(4), Some(5)]);
    }

    #[test]
    fn whoever_cannot_gain_sends_alone() {
        let none = vec![vec![None, None]; 4];
        assert_eq!(chosen(&two_sockets(), &[None; 2], Pxn::Nearer), none);
        // Nobody is beside the second NIC, or everybody is beside both.
        let far = chosen(&two_sockets(), &[Some("0-7"), Some("8")], Pxn::Nearer);
        assert_eq!(far, none);
    }
}
