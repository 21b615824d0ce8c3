//! Bad and hostile files: every error names the file, the line and the element.

use super::*;
use crate::base::Code;

#[test]
fn bad_files_are_named_with_line_and_element() {
    let line = |inside: &str| small(inside).unwrap_err().into_what();
    for (inside, expected) in [
        (
            "",
            "small.xml, line 2, <object type=\"Machine\">: there is no PU",
        ),
        (
            "<object/>",
            "small.xml, line 3, <object>: attribute type is missing",
        ),
        (
            "\n<object type=\"Toaster\"/>",
            "line 4, <object type=\"Toaster\">: kolo does not know this type",
        ),
        (
            "<object type=\"PU\"/>",
            "line 3, <object type=\"PU\">: attribute os_index is missing",
        ),
        (
            "<object type=\"PU\" os_index=\"x\"/>",
            "os_index=\"x\" is not a number",
        ),
        (
            "<object type=\"PU\" os_index=\"99999\"/>",
            "os_index is not below 65536",
        ),
        (
            "<object type=\"PU\" os_index=\"1\" cpuset=\"0x1\"/>",
            "its cpuset is not just PU 1",
        ),
        (
            "<object type=\"PU\" os_index=\"1\" cpuset=\"0xz\"/>",
            "cpuset: the processor mask `0xz` cannot be read",
        ),
        ("<object type=\"Machine\"/>", "a machine inside a machine"),
        (
            "<object type=\"NUMANode\" os_index=\"0\"/>",
            "attribute cpuset is missing",
        ),
        (
            "<object type=\"L2Cache\" cache_size=\"-1\"/>",
            "cache_size=\"-1\" is not a number",
        ),
    ] {
        assert!(
            line(inside).contains(expected),
            "{inside}: {}",
            line(inside)
        );
    }
    assert!(line(&(PU0.to_owned() + "\n" + PU0)).contains("line 4, <object type=\"PU\">: PU 0 is"));
    let numa = "<object type=\"NUMANode\" os_index=\"3\" cpuset=\"0x1\"/>";
    assert!(line(&(numa.repeat(2) + PU0)).contains("NUMA node 3 is in it twice"));
    let device = |text: &str| line(&(PU0.to_owned() + text));
    let bad = device("<object type=\"PCIDev\" pci_busid=\"0\" pci_type=\"0200\"/>");
    assert!(
        bad.contains("<object type=\"PCIDev\">: pci_type=\"0200\" is not `CLASS"),
        "{bad}"
    );
    let bad = device("<object type=\"OSDev\" name=\"a\" osdev_type=\"9\"/>");
    assert!(
        bad.contains("osdev_type=\"9\" is no kind of device"),
        "{bad}"
    );
}

#[test]
fn what_is_no_topology_is_refused() {
    let error = |text: &str| Machine::from_xml(text, "it.xml", &Notes::lenient()).unwrap_err();
    assert!(
        error("")
            .what
            .contains("it.xml, line 1: this is not well-formed XML")
    );
    assert!(
        error("<topology>\n<object>\n</topology>")
            .what
            .contains("it.xml, line 3")
    );
    assert!(
        error("<a/>")
            .what
            .contains("line 1, <a>: a hwloc file begins with <topology>")
    );
    assert!(
        error("<topology version=\"2.0\"/>")
            .what
            .contains("there is no <object> in it")
    );
    let first = "<topology version=\"2.0\"><object type=\"Core\"/></topology>";
    assert!(error(first).what.contains("there is no PU"));
    let old = error("<topology><object type=\"Toaster\"/></topology>");
    assert!(old.what.starts_with("it.xml (hwloc 1.x format): "), "{old}");
    assert!(!old.remedy.is_empty());
}

/// Neither long chains of objects nor entities that multiply may take the process down.
#[test]
fn hostile_files_are_refused() {
    for kind in ["Group", "Bridge", "L1iCache", "Misc"] {
        let open = format!("<object type=\"{kind}\">");
        let nested = |levels| small(&(open.repeat(levels) + PU0 + &"</object>".repeat(levels)));
        let error = nested(200_000).unwrap_err();
        assert!(
            error
                .what
                .contains("line 3: elements are nested deeper than 100"),
            "{error}"
        );
        // The deepest that is allowed is read without trouble, PU or not.
        let deepest = nested(97);
        assert_eq!(
            deepest.is_ok(),
            matches!(kind, "Group" | "L1iCache"),
            "{kind}"
        );
    }
    let mut entities = "<!ENTITY a0 \"ha\">".to_owned();
    for level in 1..30 {
        let before = level - 1;
        entities += &format!("<!ENTITY a{level} \"&a{before};&a{before};\">");
    }
    let bomb = format!("<!DOCTYPE topology [{entities}]><topology>&a29;</topology>");
    let error = Machine::from_xml_str(&bomb, "it.xml").unwrap_err();
    assert!(error.what.contains("no entity `a29` is known"), "{error}");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let error = Machine::from_xml_file(&path("absent.xml")).unwrap_err();
    assert_eq!(error.code, Code::SystemError);
    assert!(
        error.what.contains("absent.xml") && error.remedy.contains("lstopo"),
        "{error}"
    );
    let error = Machine::from_xml_file(&path("")).unwrap_err();
    assert!(
        error.what.contains("tests/data/topo"),
        "a directory: {error}"
    );
}
