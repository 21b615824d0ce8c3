//! Descriptions as other programs write them: what is unknown is skipped, what cannot be true is
//! dropped, each with one warning; an error only where no machine is left.

use super::super::graph::{Graph, LinkKind, NodeKind, TopoFile};
use super::*;

/// The graph of a `<system>` with this inside, and its warnings. The first line inside is line 2.
fn system(inside: &str) -> (Graph, Vec<String>) {
    let notes = Notes::lenient();
    let text = format!("<system version=\"2\">\n{inside}\n</system>\n");
    match TopoFile::parse(&text, "box.xml", &notes).unwrap() {
        TopoFile::Graph(graph) => (graph, notes.lines()),
        TopoFile::Machine(_) => panic!("taken for hwloc's"),
    }
}

/// The machine with this inside, and its warnings. The first line inside is line 3.
fn machine(version: &str, inside: &str) -> (Machine, Vec<String>) {
    let notes = Notes::lenient();
    (small_as(version, inside, &notes).unwrap(), notes.lines())
}

/// Each warning names file, line and element, and has these words.
fn said(lines: &[String], expected: &[&str]) {
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, words) in lines.iter().zip(expected) {
        assert!(line.contains(", line ") && line.contains(words), "{line}");
    }
}

fn rates(graph: &Graph, a: usize, b: usize) -> Vec<(LinkKind, u32)> {
    let links = graph.leaving(a).iter().map(|&link| graph.links[link]);
    links
        .filter(|link| link.to == b)
        .map(|link| (link.kind, link.megabytes_per_s))
        .collect()
}

fn gpus(graph: &Graph) -> Vec<usize> {
    graph.of_kind(NodeKind::Gpu)
}

/// Four accelerators of AMD, each joined to each, two of them behind one switch.
#[test]
fn a_node_of_amd_has_links_of_its_own() {
    let bus = |index: usize| format!("0000:{:02x}:00.0", 0x11 * (index + 1));
    let gpu = |me: usize| {
        let links: String = (0..4)
            .filter(|&peer| peer != me)
            .map(|peer| {
                format!(
                    "<xgmi target=\"{}\" count=\"1\" tclass=\"0x120000\"/>\n",
                    bus(peer)
                )
            })
            .collect();
        format!(
            "<pci busid=\"{}\" class=\"0x120000\" link_speed=\"32.0 GT/s PCIe\">\n\
             <gpu dev=\"{me}\" sm=\"94\" gcn=\"gfx942\" gdr=\"1\">\n{links}</gpu></pci>\n",
            bus(me)
        )
    };
    let (graph, lines) = system(&format!(
        "<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\
         <pci busid=\"0000:10:00.0\" class=\"0x060400\">{}{}</pci></cpu>\
         <cpu numaid=\"1\">{}{}</cpu>",
        gpu(0),
        gpu(1),
        gpu(2),
        gpu(3)
    ));
    assert_eq!(lines, [""; 0]);
    let gpus = gpus(&graph);
    assert_eq!(gpus.len(), 4);
    for &a in &gpus {
        for &b in gpus.iter().filter(|&&b| b != a) {
            assert_eq!(rates(&graph, a, b), [(LinkKind::NvLink, 51_200)]);
        }
    }
}

#[test]
fn parts_that_stand_twice_are_taken_once() {
    let (graph, lines) = system(
        "<cpu numaid=\"0\">\n\
         <pci busid=\"a\" class=\"0x030200\"><gpu dev=\"0\" sm=\"80\"/></pci>\n\
         <pci busid=\"a\" class=\"0x030200\"><gpu dev=\"1\" sm=\"80\"/></pci>\n\
         <pci busid=\"b\" class=\"0x030200\"><gpu dev=\"0\" sm=\"80\"/></pci>\n\
         <nic><net name=\"eth0\" dev=\"0\"/></nic>\n\
         <nic>\n<net name=\"eth0\" dev=\"0\"/></nic>\n\
         <nic><net name=\"eth1\" dev=\"0\"/></nic>\n\
         <pci busid=\"s\">\n<pci busid=\"c\" class=\"0x030200\"/></pci>\n\
         <pci busid=\"s\">\n<pci busid=\"d\" class=\"0x030200\"/></pci>\n\
         </cpu>\n<cpu numaid=\"0\"><pci busid=\"e\" class=\"0x030200\"/></cpu>",
    );
    said(
        &lines,
        &[
            "box.xml, line 4, <pci busid=\"a\">: this bus address is in it twice",
            "box.xml, line 5, <gpu dev=\"0\">: GPU 0 is in it twice: it gets another",
            "box.xml, line 8, <net name=\"eth0\">: NET 0 is in it twice",
            "box.xml, line 7, <nic>: there is no <net> in it that counts",
            "box.xml, line 9, <net name=\"eth1\">: NET 0 is in it twice: it gets another",
            "box.xml, line 12, <pci busid=\"s\">: this bus address is in it twice: taken for",
            "box.xml, line 15, <cpu numaid=\"0\">: CPU 0 is in it twice: taken for",
        ],
    );
    let names: Vec<&str> = gpus(&graph)
        .iter()
        .map(|&gpu| graph.nodes[gpu].name.as_str())
        .collect();
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    let nets = graph.of_kind(NodeKind::Net);
    let nets: Vec<(u32, &str)> = nets
        .iter()
        .map(|&net| (graph.nodes[net].number, graph.nodes[net].name.as_str()))
        .collect();
    assert_eq!(nets, [(0, "eth0"), (1, "eth1")]);
    assert_eq!(graph.of_kind(NodeKind::Pci).len(), 1);
    assert_eq!(graph.of_kind(NodeKind::Cpu).len(), 1);
}

#[test]
fn links_that_cannot_be_are_dropped() {
    let (graph, lines) = system(
        "<cpu numaid=\"0\">\n\
         <pci busid=\"a\" class=\"0x030200\"><gpu dev=\"0\" sm=\"80\">\n\
         <nvlink target=\"a\" count=\"4\" tclass=\"0x030200\"/>\n\
         <nvlink target=\"b\" count=\"2\" tclass=\"0x030200\"/>\n\
         <nvlink target=\"b\" count=\"2\" tclass=\"0x030200\"/>\n\
         <nvlink target=\"zz\" count=\"2\" tclass=\"0x030200\"/>\n\
         <nvlink count=\"2\"/>\n\
         <c2c bw=\"none\"/>\n\
         <new thing=\"1\"/>\n\
         </gpu></pci>\n\
         <pci busid=\"b\" class=\"0x030200\" link_speed=\"fast\"><gpu dev=\"1\" sm=\"80\">\n\
         <nvlink target=\"a\" count=\"3\"/>\n\
         </gpu></pci></cpu>",
    );
    said(
        &lines,
        &[
            "line 10, <new>: kolo does not know this element inside <gpu>: skipped",
            "line 9, <c2c>: bw=\"none\" is not a number",
            "line 12, <pci busid=\"b\">: link_speed=\"fast\" is not like",
            "line 4, <nvlink target=\"a\">: it leads back to its own GPU",
            "line 6, <nvlink target=\"b\">: this target is in its <gpu> twice",
            "line 7, <nvlink target=\"zz\">: there is no device zz in this file",
            "line 8, <nvlink>: attribute target is missing",
            "line 13, <nvlink target=\"a\">: count is 3 here and 2 at the other end",
        ],
    );
    let gpus = gpus(&graph);
    assert_eq!(
        rates(&graph, gpus[0], gpus[1]),
        [(LinkKind::NvLink, 40_000)]
    );
}

#[test]
fn format_3_of_hwloc_says_kinds_of_devices_as_sets() {
    let device = |name: &str, kinds: &str| {
        format!("<object type=\"OSDev\" name=\"{name}\" osdev_type=\"{kinds}\"/>\n")
    };
    let all = [
        ("nvme0n1", "1", DeviceClass::Storage),
        ("dax0.0", "3", DeviceClass::Storage),
        ("card0", "4", DeviceClass::Gpu),
        ("cuda0", "12", DeviceClass::CoProcessor),
        ("eth0", "16", DeviceClass::Network),
        ("mlx5_0", "32", DeviceClass::OpenFabrics),
        ("hsi0", "48", DeviceClass::OpenFabrics),
        ("dma0", "0x40", DeviceClass::Dma),
        ("none0", "0", DeviceClass::Other),
    ];
    let inside: String = all
        .iter()
        .map(|(name, kinds, _)| device(name, kinds))
        .collect();
    for version in ["3.0", "3.1", "3"] {
        let (found, lines) = machine(version, &format!("{PU0}{inside}"));
        assert_eq!(lines, [""; 0]);
        for ((name, _, class), device) in all.iter().zip(&found.devices) {
            assert_eq!((device.name.as_str(), device.class), (*name, *class));
        }
    }
    // Format 2 has numbers, of which 1 is a GPU.
    let (old, _) = machine("2.0", &(PU0.to_owned() + &device("card0", "1")));
    assert_eq!(old.devices[0].class, DeviceClass::Gpu);
    let (strange, lines) = machine("3.0", &(PU0.to_owned() + &device("new0", "4096")));
    assert_eq!(strange.devices[0].class, DeviceClass::Other);
    said(&lines, &["osdev_type=\"4096\" is no kind of device"]);
}

/// Format 3 of hwloc tells of the topology what format 2 tells of the machine.
#[test]
fn format_3_of_hwloc_tells_the_architecture_outside_of_the_machine() {
    let text = format!(
        "<topology version=\"3.0\">\n<object type=\"Machine\">{PU0}</object>\n\
         <info name=\"Architecture\" value=\"aarch64\"/></topology>"
    );
    let machine = Machine::from_xml(&text, "m.xml", &Notes::strict()).unwrap();
    assert_eq!(machine.arch.as_deref(), Some("aarch64"));
}

#[test]
fn objects_that_cannot_be_are_dropped_and_unknown_ones_looked_through() {
    let (found, lines) = machine(
        "2.9",
        "<object type=\"Chiplet\" os_index=\"7\">\n\
         <object type=\"Core\"><object type=\"PU\" os_index=\"0\"/></object>\n\
         <object type=\"Core\"><object type=\"PU\" os_index=\"0\"/>\n\
         <object type=\"PU\" os_index=\"1\" cpuset=\"0x4\"/></object></object>\n\
         <object type=\"PU\"/>\n\
         <object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x3\"/>\n\
         <object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x3\"/>\n\
         <object type=\"NUMANode\" os_index=\"1\" cpuset=\"0xf...f\"/>\n\
         <object type=\"PCIDev\" pci_busid=\"0000:01:00.0\" pci_type=\"0200 [8086:1] [0:0] 00\"/>\n\
         <object type=\"PCIDev\" pci_busid=\"0000:01:00.0\" pci_type=\"0200 [8086:1] [0:0] 00\"/>\n\
         <object type=\"PCIDev\" pci_busid=\"0000:02:00.0\" pci_type=\"what\"/>\n\
         <object type=\"OSDev\" osdev_type=\"2\"/>\n\
         <strange/>",
    );
    said(
        &lines,
        &[
            "line 3, <object type=\"Chiplet\">: kolo does not know this type of object",
            "line 5, <object type=\"PU\">: PU 0 is in it twice",
            "line 6, <object type=\"PU\">: its cpuset is not just PU 1: os_index counts",
            "line 7, <object type=\"PU\">: attribute os_index is missing",
            "line 9, <object type=\"NUMANode\">: NUMA node 0 is in it twice",
            "line 10, <object type=\"NUMANode\">: cpuset: ",
            "line 12, <object type=\"PCIDev\">: PCI function 0000:01:00.0 is in it twice",
            "line 13, <object type=\"PCIDev\">: pci_type=\"what\" is not",
            "line 14, <object type=\"OSDev\">: attribute name is missing",
        ],
    );
    assert_eq!((found.cpus(), found.cores.len()), (&cpus("0-1"), 2));
    assert_eq!((found.numa.len(), found.devices.len()), (1, 2));
}

/// The links of GPUs beside those of a package, as POWER has them.
#[test]
fn a_matrix_may_name_what_is_no_device() {
    let function = |bus: &str, id: u32| {
        format!(
            "<object type=\"PCIDev\" gp_index=\"{id}\" pci_busid=\"{bus}\" \
             pci_type=\"0302 [10de:20b5] [0000:0000] a1\"/>"
        )
    };
    for name in ["NVLinkBandwidth", "XGMIBandwidth"] {
        let text = format!(
            "<topology version=\"2.0\">\n<object type=\"Machine\">\
             <object type=\"Package\" gp_index=\"3\">{PU0}</object>{}{}</object>\n\
             <distances2hetero name=\"{name}\"><indexes>Package:3 PCIDev:7 PCIDev:8</indexes>\
             <u64values>0 9 9 9 0 50000 9 50000 0</u64values></distances2hetero></topology>",
            function("0000:01:00.0", 7),
            function("0000:02:00.0", 8),
        );
        let notes = Notes::lenient();
        let machine = Machine::from_xml(&text, "m.xml", &notes).unwrap();
        said(
            &notes.lines(),
            &["1 of its objects are on no PCI function: left out"],
        );
        assert_eq!(machine.nvlinks.len(), 1);
        assert_eq!(machine.nvlinks[0].megabytes_per_s, 50_000);
    }
}

/// Strict reading makes an error of the first warning, and nothing of a file without any.
#[test]
fn an_error_remains_where_no_machine_is_left() {
    let read = |text: &str| TopoFile::parse(text, "box.xml", &Notes::lenient());
    for (text, words) in [
        ("<system><nic/></system>", "there is no <cpu> in it"),
        (
            "<graphs version=\"1\"><graph/></graphs>",
            "<graphs> holds rings",
        ),
        (
            "<topology version=\"3.0\"><object type=\"Machine\"/></topology>",
            "there is no PU",
        ),
        ("<system>", "not well-formed"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.what.contains(words), "{error}");
    }
    let files = ["tests/topologies", "tests/data/topo"];
    for folder in files {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            TopoFile::read_noting(&path, &Notes::strict()).unwrap();
        }
    }
}

#[test]
fn many_warnings_are_counted() {
    let notes = Notes::lenient();
    let text = format!(
        "<system><cpu numaid=\"0\">{}</cpu></system>",
        "<a/>".repeat(100)
    );
    TopoFile::parse(&text, "box.xml", &notes).unwrap();
    let lines = notes.lines();
    assert_eq!(lines.len(), 21);
    assert_eq!(lines[20], "and 80 further places of this kind");
}
