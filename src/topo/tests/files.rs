//! Files in the form of GPU libraries: what is read, and what is refused with its place.

use super::super::graph::{Graph, LinkKind, NodeKind, TopoFile, graph_of};
use super::loads::described;
use super::*;
use crate::base::Code;

/// A file with this inside `<system>`, one element on the third line.
fn system(inside: &str) -> Result<Graph, crate::base::Error> {
    let text = format!("<!-- a test -->\n<system version=\"1\">\n{inside}\n</system>\n");
    match TopoFile::parse(&text, "box.xml", &Notes::strict())? {
        TopoFile::Graph(graph) => Ok(graph),
        TopoFile::Machine(_) => panic!("taken for hwloc's"),
    }
}

fn gpu(bus: &str, dev: u32, inside: &str) -> String {
    format!(
        "<pci busid=\"{bus}\" class=\"0x030200\"><gpu dev=\"{dev}\" sm=\"80\">{inside}</gpu></pci>"
    )
}

fn cpu(inside: &str) -> String {
    format!("<cpu numaid=\"0\">\n{inside}\n</cpu>")
}

fn switch(inside: &str) -> String {
    cpu(&format!("<pci busid=\"s\">\n{inside}</pci>"))
}

fn nic(inside: &str) -> String {
    cpu(&format!("<nic>\n{inside}</nic>"))
}

/// Two GPUs, `a` with a link, on the fifth line.
fn nvlink(target: &str, more: &str) -> String {
    let link = format!("\n<nvlink target=\"{target}\" {more}/>");
    cpu(&(gpu("a", 0, &link) + &gpu("b", 1, "")))
}

/// Each of these files must be refused, with these words in what is said.
fn refused(files: &[(String, &str)]) {
    for (inside, expected) in files {
        let found = system(inside).unwrap_err();
        assert!(found.what.starts_with("box.xml, line "), "{found}");
        assert!(found.what.contains(expected), "{inside}\n{found}");
        assert!(found.code == Code::InvalidArgument && !found.remedy.is_empty());
    }
}

#[test]
fn wrong_processors_and_buses_are_named() {
    refused(&[
        ("".to_owned(), "line 2, <system>: there is no <cpu> in it"),
        (
            "<toaster/>".to_owned(),
            "line 3, <toaster>: kolo does not know this element inside",
        ),
        (
            "<cpu/>".to_owned(),
            "line 3, <cpu>: attribute numaid is missing",
        ),
        (
            "<cpu numaid=\"-2\"/>".to_owned(),
            "line 3, <cpu numaid=\"-2\">: numaid=\"-2\" is not",
        ),
        (
            "<cpu numaid=\"0\"/>\n<cpu numaid=\"0\"/>".to_owned(),
            "line 4, <cpu numaid=\"0\">: CPU 0",
        ),
        (
            "<cpu numaid=\"0\" affinity=\"xyz\"/>".to_owned(),
            "line 3, <cpu numaid=\"0\">: affinity",
        ),
        (cpu("<pci/>"), "line 4, <pci>: attribute busid is missing"),
        (
            cpu("<pci busid=\"a\" link_width=\"-16\"/>"),
            "line 4, <pci busid=\"a\">: link_width",
        ),
        (
            cpu("<pci busid=\"a\" link_width=\"99\"/>"),
            "link_width is not 1 to 64 lanes",
        ),
        (
            cpu("<pci busid=\"a\" link_speed=\"fast\"/>"),
            "link_speed=\"fast\" is not like",
        ),
        (
            cpu("<pci busid=\"a\" link_speed=\"-8 GT/s\"/>"),
            "link_speed=\"-8 GT/s\" is not",
        ),
    ]);
}

#[test]
fn wrong_trees_of_devices_are_named() {
    refused(&[
        (
            cpu("<gpu dev=\"0\"/>"),
            "line 4, <gpu dev=\"0\">: kolo does not know this element",
        ),
        (
            cpu("<pci busid=\"a\"><gpu/></pci>"),
            "line 4, <gpu>: attribute dev is missing",
        ),
        (
            cpu(&(gpu("a", 0, "") + &gpu("b", 0, ""))),
            "<gpu dev=\"0\">: GPU 0 is in it twice",
        ),
        (
            cpu(&(gpu("a", 0, "") + &gpu("a", 1, ""))),
            "<pci busid=\"a\">: this bus address is in",
        ),
        (
            switch("<pci busid=\"s\"/>"),
            "line 5, <pci busid=\"s\">: this bus address is in it twice",
        ),
        (
            switch("<pci busid=\"t\"/><gpu dev=\"0\"/>"),
            "a PCI switch is no device itself",
        ),
        (
            switch("<gpu dev=\"0\"/><nic><net dev=\"0\"/></nic>"),
            "line 5, <nic>: one PCI function is one device",
        ),
        (
            switch("<pcilink target=\"x\"/>"),
            "<pcilink target=\"x\">: there is no such PCI switch",
        ),
    ]);
}

#[test]
fn wrong_links_and_ports_are_named() {
    refused(&[
        (
            nvlink("c", "count=\"2\""),
            "line 5, <nvlink target=\"c\">: there is no device c in",
        ),
        (
            nvlink("a", "count=\"2\""),
            "line 5, <nvlink target=\"a\">: it leads back to its own",
        ),
        (nvlink("b", "count=\"-2\""), "count=\"-2\" is not a number"),
        (nvlink("b", "count=\"0\""), "count is not 1 to 64"),
        (nvlink("b", ""), "attribute count is missing"),
        (
            nic(""),
            "line 4, <nic>: there is no <net> in it that counts",
        ),
        (nic("<net/>"), "line 5, <net>: attribute dev is missing"),
        (
            nic("<net dev=\"0\" speed=\"-1\"/>"),
            "speed=\"-1\" is not a number",
        ),
        (
            nic("<net dev=\"0\"/><net dev=\"0\"/>"),
            "NET 0 is in it twice",
        ),
        (
            cpu(&gpu("a", 0, "<c2c bw=\"0\"/>")),
            "<c2c>: it has no bandwidth",
        ),
        (
            cpu(&gpu("a", 0, "<c2c count=\"2\"/>")),
            "<c2c>: attribute bw is missing",
        ),
    ]);
}

#[test]
fn what_cannot_be_is_refused() {
    let both = gpu("a", 0, "<nvlink target=\"b\" count=\"2\"/>");
    let other = gpu("b", 1, "<nvlink target=\"a\" count=\"3\"/>");
    let found = system(&cpu(&(both + &other))).unwrap_err();
    assert!(
        found
            .what
            .contains("count is 3 here and 2 at the other end"),
        "{found}"
    );
    let nested = "<pci busid=\"x\">".repeat(2000) + &"</pci>".repeat(2000);
    let found = system(&cpu(&nested)).unwrap_err();
    assert!(found.what.contains("nested deeper than 100"));
    let broken = TopoFile::parse("<system>\n<cpu numaid>", "box.xml", &Notes::lenient());
    let broken = broken.unwrap_err();
    assert!(
        broken
            .what
            .contains("box.xml, line 2: this is not well-formed"),
        "{broken}"
    );
    let absent = TopoFile::read(Path::new("/nowhere/box.xml")).unwrap_err();
    assert!(absent.what.contains("/nowhere/box.xml"), "{absent}");
}

#[test]
fn links_are_joined_once_and_ends_may_be_left_out() {
    let inside = format!(
        "<cpu numaid=\"-1\">{}{}{}</cpu>",
        gpu(
            "a",
            0,
            "<nvlink target=\"b\" count=\"2\"/>\
             <nvlink target=\"s\" count=\"3\" tclass=\"0x068000\"/>"
        ),
        gpu("b", 1, "<nvlink target=\"a\" count=\"2\"/>"),
        gpu(
            "c",
            2,
            "<nvlink target=\"b\" count=\"1\"/><c2c bw=\"1000\" count=\"3\"/>"
        ),
    );
    let graph = system(&inside).unwrap();
    let rate = |a: (NodeKind, u32), b: (NodeKind, u32)| {
        let [a, b] = [a, b].map(|(kind, number)| graph.find(kind, number).unwrap());
        let links = graph.leaving(a).iter().map(|&link| graph.links[link]);
        let found = links.filter(|link| link.to == b && link.kind != LinkKind::Pci);
        found.map(|link| link.megabytes_per_s).collect::<Vec<_>>()
    };
    let gpu = |number| (NodeKind::Gpu, number);
    assert_eq!(rate(gpu(0), gpu(1)), [40_000]);
    assert_eq!(rate(gpu(1), gpu(2)), [20_000]);
    assert_eq!(rate(gpu(0), (NodeKind::NvSwitch, 0)), [60_000]);
    assert_eq!(rate(gpu(2), (NodeKind::Cpu, 0)), [3_000]);
}

#[test]
fn what_a_dgx_file_says_is_in_the_graph() {
    let graph = described("dgx_a100.xml").graph;
    let count = |kind| graph.of_kind(kind).len();
    assert_eq!(NodeKind::ALL.map(count), [8, 0, 4, 8, 0, 1, 8, 8]);
    let node = |kind, number| &graph.nodes[graph.find(kind, number).unwrap()];
    assert_eq!(node(NodeKind::Cpu, 1).cpus, cpus("16-31"));
    assert_eq!(node(NodeKind::Net, 3).name, "mlx5_3");
    assert_eq!(node(NodeKind::Gpu, 2).name, "0000:27:00.0");
    // Without facts the classes say what the devices are.
    let bare = described("cloud_tree_only.xml").graph;
    let count = |kind| bare.of_kind(kind).len();
    assert_eq!(NodeKind::ALL.map(count), [1, 0, 2, 2, 0, 0, 2, 2]);
    let virtual_bus = described("cloud_flat_8gpu.xml").graph;
    let gpu = virtual_bus.find(NodeKind::Gpu, 0).unwrap();
    let link = virtual_bus.links[virtual_bus.leaving(gpu)[0]];
    assert_eq!(
        link.megabytes_per_s, 12_000,
        "an unknown link is an old one"
    );
}

/// Matrices of hwloc that do not fit are refused; NVSwitches in them are one switch.
#[test]
fn nvlink_matrices_of_hwloc() {
    let function = |bus: &str, id: u32, class: &str| {
        format!(
            "<object type=\"PCIDev\" gp_index=\"{id}\" pci_busid=\"{bus}\" \
             pci_type=\"{class} [10de:20b5] [0000:0000] a1\"/>"
        )
    };
    let text = |indexes: &str, values: &str| {
        format!(
            "<topology version=\"2.0\">\n<object type=\"Machine\">{PU0}{}{}{}</object>\n\
             <distances2hetero name=\"NVLinkBandwidth\"><indexes>{indexes}</indexes>\
             <u64values>{values}</u64values></distances2hetero></topology>",
            function("0000:01:00.0", 7, "0302"),
            function("0000:02:00.0", 8, "0302"),
            function("0000:03:00.0", 9, "0680"),
        )
    };
    let three = text(
        "PCIDev:7 PCIDev:8 PCIDev:9",
        "0 0 50000 0 0 50000 50000 50000 0",
    );
    let switched = Machine::from_xml_str(&three, "m.xml").unwrap();
    let graph = graph_of(&switched, &|_| None).unwrap();
    let switch = graph.find(NodeKind::NvSwitch, 0).unwrap();
    let rates: Vec<u32> = graph
        .leaving(switch)
        .iter()
        .map(|&link| graph.links[link].megabytes_per_s)
        .collect();
    assert_eq!(
        rates, [40_000; 2],
        "four fifths of the nominal rate, for each GPU"
    );
    let machine = Machine::from_xml_str(&text("PCIDev:7 PCIDev:8", "0 50000 50000 0"), "m.xml");
    let links = machine.unwrap().nvlinks;
    assert_eq!((links.len(), links[0].megabytes_per_s), (1, 50_000));
    let error = |indexes, values| {
        let strict = Notes::strict();
        Machine::from_xml(&text(indexes, values), "m.xml", &strict).unwrap_err()
    };
    assert!(
        error("4 8", "0 1 1 0")
            .what
            .contains("line 3, <distances2hetero")
    );
    assert!(
        error("4 8", "0 1 1 0")
            .what
            .contains("1 of its objects are on no PCI function")
    );
    assert!(
        error("7 8", "0 1 1")
            .what
            .contains("3 values for 2 objects")
    );
    assert!(
        error("7 8", "0 -1 1 0")
            .what
            .contains("\"-1\" is not a bandwidth")
    );
}
