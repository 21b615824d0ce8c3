//! Descriptions drawn at random: attributes are missing, elements stand in another order or twice,
//! and unknown ones are anywhere. Where a processor is left there is a machine.

use super::super::graph::{Description, TopoFile};
use super::super::search::Request;
use super::super::seats::{self, Seated};
use super::*;
use fastrand::Rng;

/// Files that are drawn of each form.
const FILES: u64 = 400;

/// An element in the making.
#[derive(Clone)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    children: Vec<Element>,
}

impl Element {
    fn new(name: &str, attributes: &[(&str, String)]) -> Element {
        let owned = attributes.iter().map(|(k, v)| ((*k).to_owned(), v.clone()));
        Element {
            name: name.to_owned(),
            attributes: owned.collect(),
            children: Vec::new(),
        }
    }

    fn with(mut self, children: Vec<Element>) -> Element {
        self.children.extend(children);
        self
    }

    fn text(&self) -> String {
        let mut out = format!("<{}", self.name);
        for (key, value) in &self.attributes {
            out += &format!(" {key}=\"{value}\"");
        }
        out += ">\n";
        for child in &self.children {
            out += &child.text();
        }
        out + &format!("</{}>\n", self.name)
    }

    /// Whether an element of this kind stands anywhere inside.
    fn has(&self, is_it: &dyn Fn(&Element) -> bool) -> bool {
        is_it(self) || self.children.iter().any(|child| child.has(is_it))
    }

    /// Damages what is inside; each place with a chance of one in `rarity`.
    fn damage(&mut self, rng: &mut Rng, rarity: usize) {
        let hit = |rng: &mut Rng| rng.usize(..rarity) == 0;
        if hit(rng) && !self.attributes.is_empty() {
            let lost = rng.usize(..self.attributes.len());
            self.attributes.remove(lost);
        }
        if hit(rng) && !self.attributes.is_empty() {
            let at = rng.usize(..self.attributes.len());
            let strange = [
                "",
                "-1",
                "x",
                "0",
                "4294967296",
                "0xf...f",
                "a",
                "99999",
                "0.0",
            ];
            self.attributes[at].1 = strange[rng.usize(..strange.len())].to_owned();
        }
        if hit(rng) {
            rng.shuffle(&mut self.attributes);
            let key = format!("new{}", rng.u8(..));
            self.attributes.push((key, "1".to_owned()));
        }
        if hit(rng) {
            rng.shuffle(&mut self.children);
        }
        if hit(rng) {
            let names = [
                "strange",
                "object",
                "pci",
                "gpu",
                "net",
                "distances2",
                "info",
            ];
            let at = rng.usize(..=self.children.len());
            let strange = Element::new(names[rng.usize(..names.len())], &[]);
            self.children.insert(at, strange);
        }
        if hit(rng) && !self.children.is_empty() {
            let again = self.children[rng.usize(..self.children.len())].clone();
            let at = rng.usize(..=self.children.len());
            self.children.insert(at, again);
        }
        for child in &mut self.children {
            child.damage(rng, rarity);
        }
    }
}

fn bus(index: u32) -> String {
    format!("0000:{index:02x}:00.0")
}

fn system(rng: &mut Rng) -> Element {
    let (mut next, mut dev) = (1, 0);
    let gpus = rng.u32(0..5);
    let cpus = rng.u32(1..4);
    let mut all: Vec<Vec<Element>> = vec![Vec::new(); cpus as usize];
    for _ in 0..gpus {
        let kinds = ["nvlink", "xgmi"];
        let links = (0..rng.u32(0..4)).map(|_| {
            let target = bus(rng.u32(1..=gpus + 1));
            let attributes = [("target", target), ("count", rng.u32(1..4).to_string())];
            Element::new(kinds[rng.usize(..2)], &attributes)
        });
        let links: Vec<Element> = links.collect();
        let facts = [("dev", dev.to_string()), ("sm", "90".to_owned())];
        let class = ("class", "0x030200".to_owned());
        let function = Element::new("pci", &[("busid", bus(next)), class])
            .with(vec![Element::new("gpu", &facts).with(links)]);
        (next, dev) = (next + 1, dev + 1);
        let place = &mut all[rng.usize(..cpus as usize)];
        if rng.bool() {
            place.push(function);
        } else {
            let switch = Element::new("pci", &[("busid", bus(100 + next))]);
            let link = Element::new("pcilink", &[("target", bus(100 + rng.u32(1..9)))]);
            place.push(switch.with(vec![function, link]));
        }
    }
    for net in 0..rng.u32(0..3) {
        let port = [("name", format!("mlx5_{net}")), ("dev", net.to_string())];
        let nic = Element::new("nic", &[]).with(vec![Element::new("net", &port)]);
        all[rng.usize(..cpus as usize)].push(nic);
    }
    let cpus = all.into_iter().zip(0..).map(|(inside, number)| {
        let facts = [
            ("numaid", number.to_string()),
            ("affinity", "ff".to_owned()),
        ];
        Element::new("cpu", &facts).with(inside)
    });
    Element::new("system", &[]).with(cpus.collect())
}

fn object(kind: &str, attributes: &[(&str, String)]) -> Element {
    let mut object = Element::new("object", &[("type", kind.to_owned())]);
    let owned = attributes.iter().map(|(k, v)| ((*k).to_owned(), v.clone()));
    object.attributes.extend(owned);
    object
}

fn topology(rng: &mut Rng) -> Element {
    let version = ["2.0", "2.9", "3.0"][rng.usize(..3)];
    let mut pu = 0;
    let mut packages = Vec::new();
    for number in 0..rng.u32(1..4) {
        let mut cores = Vec::new();
        let first = pu;
        for core in 0..rng.u32(1..4) {
            let inside = object("PU", &[("os_index", pu.to_string())]);
            cores.push(object("Core", &[("os_index", core.to_string())]).with(vec![inside]));
            pu += 1;
        }
        let set: CpuSet = (first..pu).collect();
        let numa = [("os_index", number.to_string()), ("cpuset", set.to_mask())];
        let cache = object("L3Cache", &[("cache_size", "1048576".to_owned())]).with(cores);
        let index = 50 + number;
        let function = [
            ("gp_index", index.to_string()),
            ("pci_busid", bus(index)),
            ("pci_type", "0302 [10de:20b5] [0000:0000] a1".to_owned()),
        ];
        let name = [
            ("name", format!("dev{number}")),
            ("osdev_type", rng.u32(0..70).to_string()),
        ];
        let device = object("PCIDev", &function).with(vec![object("OSDev", &name)]);
        let pci = [("bridge_pci", format!("0000:[{number:02x}-0f]"))];
        let bridge = object("Bridge", &pci).with(vec![device]);
        let inside = vec![object("NUMANode", &numa), cache, bridge];
        let set = [("cpuset", set.to_mask())];
        packages.push(object("Package", &set).with(inside));
    }
    let machine = object("Machine", &[]).with(packages);
    let matrix = Element::new(
        "distances2hetero",
        &[("name", "NVLinkBandwidth".to_owned())],
    );
    Element::new("topology", &[("version", version.to_owned())]).with(vec![machine, matrix])
}

/// Whatever is read, the whole way to rings goes without a panic.
fn planned(description: &Description) {
    let count = seats::usual_count(description);
    let Ok(seats) = seats::spread(description, count) else {
        return;
    };
    let Ok(seated) = Seated::new(&description.graph, &seats, true) else {
        return;
    };
    let ranks: Vec<Rank> = (0..count as u32).map(Rank).collect();
    let _ = seated.search(&ranks, &Request::default());
}

fn holds(draw: fn(&mut Rng) -> Element, is_processor: &dyn Fn(&Element) -> bool) {
    let (mut read, mut warned) = (0, 0);
    for seed in 0..FILES {
        let mut rng = Rng::with_seed(seed);
        let mut drawn = draw(&mut rng);
        let rarity = [1000, 60, 20, 6][seed as usize % 4];
        for child in &mut drawn.children {
            child.damage(&mut rng, rarity);
        }
        let text = drawn.text();
        let notes = Notes::lenient();
        let file = TopoFile::parse(&text, "drawn.xml", &notes);
        let strict = TopoFile::parse(&text, "drawn.xml", &Notes::strict());
        let lines = notes.lines();
        let what = format!("seed {seed}: {lines:#?}\n{text}");
        match file {
            Ok(file) => {
                read += 1;
                warned += usize::from(!lines.is_empty());
                assert_eq!(strict.is_ok(), lines.is_empty(), "{what}");
                planned(&file.describe().expect(&what));
            }
            Err(error) => assert!(!drawn.has(is_processor), "{error}\n{what}"),
        }
        for line in lines.iter().take(20) {
            assert!(line.starts_with("drawn.xml, line "), "{line}\n{what}");
        }
    }
    // The damage was neither nothing nor everything.
    assert!(
        warned > FILES as usize / 4 && warned < read,
        "{warned} of {read}"
    );
}

#[test]
fn systems_of_gpu_libraries() {
    holds(system, &|element| element.name == "cpu");
}

#[test]
fn topologies_of_hwloc() {
    holds(topology, &|element| {
        let is = |key: &str, good: &dyn Fn(&str) -> bool| {
            let mut attributes = element.attributes.iter();
            attributes.any(|(k, v)| k == key && good(v))
        };
        let number = |text: &str| text.parse::<u32>().is_ok_and(|n| n < crate::topo::MAX_CPUS);
        is("type", &|kind| kind == "PU") && is("os_index", &number)
    });
}
