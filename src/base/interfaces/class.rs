//! What an interface is good for, by its name and by what the system says of it.
//!
//! The order is the field's habit: InfiniBand first, then cards, then bridges and tunnels. What
//! joins containers or virtual machines of one node, or has no signal, is there on many nodes and
//! leads to none of the others, so it is used only where nothing better leads there.

use super::ways::Place;
use serde::{Deserialize, Serialize};

/// Beginnings of names that programs give to bridges, tunnels and ends of containers.
const MADE: [&str; 29] = [
    "br-",
    "cali",
    "cilium",
    "cni",
    "docker",
    "dummy",
    "flannel",
    "gre",
    "ifb",
    "incusbr",
    "ipip",
    "kube",
    "lxc",
    "lxdbr",
    "nerdctl",
    "podman",
    "ppp",
    "sit",
    "tailscale",
    "tap",
    "tun",
    "vboxnet",
    "veth",
    "virbr",
    "vmnet",
    "vnet",
    "vxlan",
    "wg",
    "zt",
];

/// What the system says of an interface beside its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signs {
    /// There is a signal: a cable, or somebody at the other end.
    pub signal: bool,
    /// A program made it for itself: a tunnel, or a bridge without a card.
    pub is_made: bool,
    /// It is InfiniBand.
    pub is_fast: bool,
}

impl Default for Signs {
    fn default() -> Signs {
        Signs {
            signal: true,
            is_made: false,
            is_fast: false,
        }
    }
}

/// The class of an interface, the best first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Class {
    /// In the subnet where the user lets the ranks meet.
    Near,
    /// InfiniBand.
    Fast,
    /// Cards; whatever the user names.
    #[default]
    Usual,
    /// Bridges and tunnels of containers, virtual machines and VPNs.
    Made,
    /// The node alone.
    Loopback,
    /// It has no address but one of the link.
    LinkLocal,
    /// It has no signal.
    Dark,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 7] = [
        Class::Near,
        Class::Fast,
        Class::Usual,
        Class::Made,
        Class::Loopback,
        Class::LinkLocal,
        Class::Dark,
    ];

    /// Of an interface that the user names or not, near his meeting point or not.
    pub fn of(
        name: &str,
        places: &[Place],
        signs: Signs,
        (is_named, is_near): (bool, bool),
    ) -> Class {
        let is_made = || signs.is_made || MADE.iter().any(|it| name.starts_with(it));
        match () {
            () if !signs.signal => Class::Dark,
            () if places.iter().all(Place::is_of_link) => Class::LinkLocal,
            () if is_named => Class::Usual,
            () if places.iter().any(|place| place.ip.is_loopback()) => Class::Loopback,
            () if is_near => Class::Near,
            () if name.starts_with("ib") || signs.is_fast => Class::Fast,
            () if is_made() => Class::Made,
            () => Class::Usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(ip: &str) -> Place {
        Place {
            ip: ip.parse().unwrap(),
            prefix: 24,
            scope: 0,
            port: 0,
        }
    }

    #[test]
    fn names_and_signs_make_the_class() {
        let (usual, signs) = ([place("10.0.0.1"), place("fe80::1")], Signs::default());
        let of = |name: &str| Class::of(name, &usual, signs, (false, false));
        assert_eq!(of("eth0"), Class::Usual);
        assert_eq!(of("enp1s0f0np0"), Class::Usual);
        assert_eq!(of("br0"), Class::Usual);
        assert_eq!(of("bond0"), Class::Usual);
        assert_eq!(of("ib0"), Class::Fast);
        for name in MADE {
            assert_eq!(of(name), Class::Made, "{name}");
            let named = Class::of(name, &usual, signs, (true, false));
            assert_eq!(named, Class::Usual, "{name}");
        }
        let made = Signs {
            is_made: true,
            ..signs
        };
        assert_eq!(Class::of("x0", &usual, made, (false, false)), Class::Made);
        assert_eq!(Class::of("x0", &usual, made, (false, true)), Class::Near);
        let dark = Signs {
            signal: false,
            ..signs
        };
        assert_eq!(Class::of("eth0", &usual, dark, (true, true)), Class::Dark);
        let link = [place("fe80::1"), place("169.254.3.4")];
        assert_eq!(
            Class::of("eth0", &link, signs, (true, true)),
            Class::LinkLocal
        );
        let lo = [place("127.0.0.1")];
        assert_eq!(Class::of("lo", &lo, signs, (false, true)), Class::Loopback);
        assert_eq!(Class::of("lo", &lo, signs, (true, false)), Class::Usual);
        assert!(Class::ALL.is_sorted());
    }
}
