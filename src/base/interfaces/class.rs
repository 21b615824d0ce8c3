//! Classes of interfaces, by their names and by what the system says of it.
//!
//! The order is the field's habit: InfiniBand first, then cards, then bridges and tunnels. What
//! joins containers or virtual machines of one node, or has no signal, is there on many nodes and
//! leads to none of the others, so it is used only where nothing better leads there.

use super::face::{FaceAddress, Signs};
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

/// The class of an interface, the best first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum FaceClass {
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

impl FaceClass {
    /// All of them.
    pub const ALL: [FaceClass; 7] = [
        FaceClass::Near,
        FaceClass::Fast,
        FaceClass::Usual,
        FaceClass::Made,
        FaceClass::Loopback,
        FaceClass::LinkLocal,
        FaceClass::Dark,
    ];

    /// Of an interface that the user names or not, near his meeting point or not.
    pub fn of(
        name: &str,
        places: &[FaceAddress],
        signs: Signs,
        (is_named, is_near): (bool, bool),
    ) -> FaceClass {
        let is_made = || signs.is_made || MADE.iter().any(|it| name.starts_with(it));
        match () {
            () if !signs.signal => FaceClass::Dark,
            () if places.iter().all(FaceAddress::is_of_link) => FaceClass::LinkLocal,
            () if is_named => FaceClass::Usual,
            () if places.iter().any(|place| place.ip.is_loopback()) => FaceClass::Loopback,
            () if is_near => FaceClass::Near,
            () if name.starts_with("ib") || signs.is_fast => FaceClass::Fast,
            () if is_made() => FaceClass::Made,
            () => FaceClass::Usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(ip: &str) -> FaceAddress {
        FaceAddress {
            ip: ip.parse().unwrap(),
            prefix: 24,
            scope: 0,
            port: 0,
        }
    }

    #[test]
    fn names_and_signs_make_the_class() {
        let (usual, signs) = ([place("10.0.0.1"), place("fe80::1")], Signs::default());
        let of = |name: &str| FaceClass::of(name, &usual, signs, (false, false));
        assert_eq!(of("eth0"), FaceClass::Usual);
        assert_eq!(of("enp1s0f0np0"), FaceClass::Usual);
        assert_eq!(of("br0"), FaceClass::Usual);
        assert_eq!(of("bond0"), FaceClass::Usual);
        assert_eq!(of("ib0"), FaceClass::Fast);
        for name in MADE {
            assert_eq!(of(name), FaceClass::Made, "{name}");
            let named = FaceClass::of(name, &usual, signs, (true, false));
            assert_eq!(named, FaceClass::Usual, "{name}");
        }
        let made = Signs {
            is_made: true,
            ..signs
        };
        assert_eq!(
            FaceClass::of("x0", &usual, made, (false, false)),
            FaceClass::Made
        );
        assert_eq!(
            FaceClass::of("x0", &usual, made, (false, true)),
            FaceClass::Near
        );
        let dark = Signs {
            signal: false,
            ..signs
        };
        assert_eq!(
            FaceClass::of("eth0", &usual, dark, (true, true)),
            FaceClass::Dark
        );
        let link = [place("fe80::1"), place("169.254.3.4")];
        assert_eq!(
            FaceClass::of("eth0", &link, signs, (true, true)),
            FaceClass::LinkLocal
        );
        let lo = [place("127.0.0.1")];
        assert_eq!(
            FaceClass::of("lo", &lo, signs, (false, true)),
            FaceClass::Loopback
        );
        assert_eq!(
            FaceClass::of("lo", &lo, signs, (true, false)),
            FaceClass::Usual
        );
        assert!(FaceClass::ALL.is_sorted());
    }
}
