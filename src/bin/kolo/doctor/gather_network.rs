//! Reads the facts of the network from the system: interfaces, and what kolo makes of them.

use super::facts::{Face, NoFace, NodeFacts};
use super::finding::list;
use super::trials;
use kolo::base::interfaces::class::FaceClass;
use kolo::base::interfaces::face::{FaceAddress, Signs};
use kolo::base::interfaces::ways::{FaceCard, FaceTable};
use kolo::base::interfaces::{self, Family, Interface};
use kolo::base::{Code, Error};
use kolo::bootstrap::NetSettings;
use kolo::bootstrap::reach::Listeners;
use kolo::config::Settings;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Listens on all addresses of the table, whose ports it writes there. Where it cannot on an
/// interface that would be used, that is a fact.
pub fn listen(facts: &mut NodeFacts) -> Listeners {
    let cards = &facts.table.cards;
    let interface = |card: &FaceCard, place: &FaceAddress| Interface {
        name: card.name.clone(),
        address: place.ip,
        scope: place.scope,
        netmask: None,
        signs: Signs::default(),
    };
    let of_card = |card: &FaceCard| -> Vec<Interface> {
        let places = card.places.iter();
        places.map(|place| interface(card, place)).collect()
    };
    let all: Vec<Interface> = cards.iter().flat_map(of_card).collect();
    let (listeners, deaf) = Listeners::open(&all, trials::LIMIT);
    let is_used = |(name, ip): &(String, IpAddr)| {
        let mut faces = facts.faces.iter();
        faces.any(|face| face.name == *name && face.address == Some(*ip))
    };
    let deaf = deaf.into_iter().filter(|(end, _)| is_used(end));
    facts.deaf = deaf.map(|(_, why)| why).collect();
    for card in &mut facts.table.cards {
        for place in &mut card.places {
            let is_it =
                |(name, at): &&(String, SocketAddr)| *name == card.name && at.ip() == place.ip;
            let found = listeners.places.iter().find(is_it);
            place.port = found.map_or(0, |(_, at)| at.port());
        }
    }
    listeners
}

/// The interfaces, and what kolo makes of them; only what lasts if that is wanted.
pub fn of_network(settings: &Settings, lasting: bool) -> NodeFacts {
    let net = NetSettings::from(settings);
    let (family, list) = (net.socket_family, net.socket_ifname.as_deref());
    let found = interfaces::table(family, list);
    let is_unknown = |error: &Error| error.code == Code::SystemError;
    let is_passing = lasting && found.as_ref().is_err_and(is_unknown);
    let table = found.unwrap_or_default();
    let mut faces = faces(&table);
    let has_none = faces.iter().all(|face| face.address.is_none());
    let no_face = (has_none && !is_passing).then(|| {
        let of_family = interfaces::table(family, None).unwrap_or_default();
        let of_all = interfaces::table(Family::Any, None).unwrap_or_default();
        why_none(settings, [&reachable(&of_family), &reachable(&of_all)])
    });
    if lasting {
        faces.retain(|face| !is_made_by_jobs(&face.name));
    }
    NodeFacts {
        faces,
        no_face,
        table,
        ..NodeFacts::default()
    }
}

/// Addresses by which nobody else can reach this node.
fn is_alone(address: IpAddr) -> bool {
    let link_local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    address.is_loopback() || link_local
}

/// Names of the interfaces that others can reach.
fn reachable(table: &FaceTable) -> Vec<&str> {
    let is_one = |card: &&FaceCard| card.places.iter().any(|place| !is_alone(place.ip));
    let cards = table.cards.iter().filter(is_one);
    cards.map(|card| card.name.as_str()).collect()
}

/// Why no interface is left, by those that there are without a list, and without a family too.
fn why_none(settings: &Settings, [of_family, of_all]: [&[&str]; 2]) -> NoFace {
    let (key, left) = match (of_family, of_all) {
        ([_, ..], _) => ("socket_ifname", of_family),
        ([], [_, ..]) => ("socket_family", of_all),
        ([], []) => {
            return NoFace {
                what: "there is no interface that other nodes could reach".into(),
                fix: "`ip address` lists what there is; give one an address, and set it up".into(),
                by_setting: false,
            };
        }
    };
    let set = settings.entry(key).map_or(String::new(), |entry| {
        format!("{key} = {} ({})", entry.value, entry.source.origin)
    });
    NoFace {
        what: format!(
            "{set} excludes all interfaces that other nodes could reach: {}",
            list(left)
        ),
        fix: format!("let {key} take one of them on all nodes, or leave it out"),
        by_setting: true,
    }
}

/// Every interface of the system but the loopback, with the address that kolo would use.
fn faces(table: &FaceTable) -> Vec<Face> {
    let folder = Path::new("/sys/class/net");
    let mut names = names_in(folder);
    // Without sysfs those are known that can be used.
    names.extend(table.cards.iter().map(|card| card.name.clone()));
    names.sort();
    names.dedup();
    names.retain(|name| name != "lo" && name != "bonding_masters");
    let best = table.cards.first().map(|card| card.class);
    let face = |name: String| {
        let card = table.cards.iter().find(|card| card.name == name);
        face_of(&folder.join(&name), name, card, best)
    };
    names.into_iter().map(face).collect()
}

/// An interface by its folder and by its card, if it may be used; cards of the `best` class are.
fn face_of(folder: &Path, name: String, card: Option<&FaceCard>, best: Option<FaceClass>) -> Face {
    let text = |file: &str| {
        let text = fs::read_to_string(folder.join(file)).ok()?;
        Some(text.trim().to_owned())
    };
    let flags =
        text("flags").and_then(|text| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    let place = card.and_then(|card| card.places.iter().find(|place| !is_alone(place.ip)));
    let is_made = ["bridge", "tun_flags"].map(|file| folder.join(file).exists());
    let is_wanted = |card: &&FaceCard| {
        let class = FaceClass::of(&name, &card.places, Signs::default(), (false, false));
        card.class == FaceClass::Dark && class < FaceClass::Made && is_made == [false, false]
    };
    let dark = card.filter(is_wanted).and(place).map(|place| place.ip);
    let is_used = card.map(|card| card.class) == best;
    let used = place.filter(|_| is_used);
    Face {
        address: used.map(|place| place.ip),
        dark,
        prefix: place.map_or(0, |place| place.prefix.into()),
        up: flags.map_or(card.is_some(), |flags| flags & libc::IFF_UP as u32 != 0),
        carrier: text("carrier").map(|text| text == "1"),
        mtu: text("mtu").and_then(|text| text.parse().ok()),
        // Where the driver does not know it says -1, or nothing.
        speed: text("speed")
            .and_then(|text| text.parse().ok())
            .filter(|&speed| speed > 0),
        name,
    }
}

/// Whether a job may have made an interface, as those of containers are: it has no device.
fn is_made_by_jobs(name: &str) -> bool {
    let folder = Path::new("/sys/class/net").join(name);
    !["device", "bonding"]
        .iter()
        .any(|it| folder.join(it).exists())
}

/// The names in a folder.
pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kolo::config::Sources;

    #[test]
    fn a_setting_that_excludes_all_interfaces_is_named() {
        let settings = |variable: &str, value: &str| {
            let sources = Sources {
                environment: [(variable.to_owned(), value.to_owned())].into(),
                ..Sources::default()
            };
            Settings::load_from(&sources).unwrap()
        };
        let both = ["eth0", "eth1"];
        let why = why_none(&settings("KOLO_SOCKET_IFNAME", "ib9"), [&both, &both]);
        let what = "socket_ifname = ib9 (variable KOLO_SOCKET_IFNAME) excludes all interfaces \
                    that other nodes could reach: eth0, eth1";
        assert!(why.what == what && why.by_setting, "{why:?}");
        let why = why_none(&settings("KOLO_SOCKET_FAMILY", "ipv6"), [&[], &both]);
        let begin = "socket_family = ipv6 (variable KOLO_SOCKET_FAMILY) excludes all";
        assert!(why.what.starts_with(begin) && why.by_setting, "{why:?}");
        let why = why_none(&Settings::defaults(), [&[], &[]]);
        assert!(why.what.starts_with("there is no interface") && !why.by_setting);
    }

    #[test]
    fn interfaces_are_read_from_the_system() {
        let folder = std::env::temp_dir().join(format!("kolo-face-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in [
            ("flags", "0x1003\n"),
            ("carrier", "0\n"),
            ("mtu", "9000\n"),
            ("speed", "-1\n"),
        ] {
            fs::write(folder.join(file), text).unwrap();
        }
        let place = FaceAddress {
            ip: "10.0.0.7".parse().unwrap(),
            prefix: 16,
            scope: 0,
            port: 0,
        };
        let mut card = FaceCard {
            name: "eth0".into(),
            class: FaceClass::Usual,
            places: vec![place],
        };
        let of = |card: &FaceCard, best| face_of(&folder, "eth0".into(), Some(card), Some(best));
        let face = of(&card, FaceClass::Usual);
        card.class = FaceClass::Dark;
        let dark = of(&card, FaceClass::Usual);
        fs::create_dir_all(folder.join("bridge")).unwrap();
        let bridge = of(&card, FaceClass::Usual);
        fs::write(folder.join("flags"), "0x1002\n").unwrap();
        let down = face_of(&folder, "eth0".into(), None, None);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            (face.up, face.carrier, face.mtu),
            (true, Some(false), Some(9000))
        );
        assert_eq!((face.speed, face.prefix), (None, 16));
        assert_eq!(face.subnet().unwrap(), "10.0.0.0/16");
        assert!(!down.up && down.address.is_none());
        assert!(face.address == Some(place.ip) && face.dark.is_none());
        assert!(dark.address.is_none() && dark.dark == Some(place.ip));
        assert!(bridge.dark.is_none(), "nobody has plugged anything in");
    }
}
