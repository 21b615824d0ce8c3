//! A small tree of XML elements, made by a pull parser in bounded room.
//!
//! **Problem.** Topology files come from anywhere. A parser that calls itself once per level of
//! nesting overflows the stack on a small file with a million levels, a scan that runs before it
//! and counts levels must see every comment and declaration as the parser does, and entities let a
//! small file say something enormous.
//!
//! **Idea.** A pull parser (`quick-xml`) does not call itself: levels are counted where they are
//! opened, elements and attributes where they are kept, and no entity is known but the five of XML.
//! What a document type declares inside is passed over.
//!
//! A ready tree (`roxmltree`, which tests use) does not do: it puts entities in as often as they
//! are named, compares each attribute of an element with all others, and bounds neither levels
//! nor attributes.

use quick_xml::Reader;
use quick_xml::events::attributes::Attributes;
use quick_xml::events::{BytesStart, Event};
use std::borrow::Cow;

/// Elements may be nested this deep; a topology has fewer than 30 levels.
pub(super) const MAX_DEPTH: usize = 100;
/// Elements of one file. A machine with 4096 PUs has about 60,000.
const MAX_ELEMENTS: usize = 1 << 18;
/// Attributes of one file.
const MAX_ATTRIBUTES: usize = 1 << 21;
/// Attributes of one element; hwloc writes about 25.
const MAX_OF_ONE: usize = 64;

/// Why a text is no document, with the line (from 1).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) line: usize,
    pub(super) why: String,
}

/// A document: its elements in the order of the text.
pub(super) struct Document<'x> {
    source: &'x str,
    elements: Vec<XmlElement<'x>>,
    attributes: Vec<(&'x str, Cow<'x, str>)>,
}

struct XmlElement<'x> {
    name: &'x str,
    /// Where it begins in the text.
    start: usize,
    /// Its attributes, as a range of the document's.
    attributes: (usize, usize),
    /// The first text inside that is not blank.
    text: &'x str,
    first: Option<u32>,
    next: Option<u32>,
}

/// An element of a document.
#[derive(Clone, Copy)]
pub(super) struct XmlNode<'d, 'x> {
    document: &'d Document<'x>,
    index: u32,
}

impl<'x> Document<'x> {
    /// Reads a text. Errors: it is not well-formed, or larger than any topology.
    pub(super) fn parse(text: &'x str) -> Result<Document<'x>, Refusal> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut build = Build {
            document: Document {
                source: text,
                elements: Vec::new(),
                attributes: Vec::new(),
            },
            open: Vec::new(),
        };
        let mut reader = Reader::from_str(text);
        loop {
            let event = reader.read_event().map_err(|error| {
                let at = reader.error_position() as usize;
                build.refuse(at, format!("this is not well-formed XML: {error}"))
            })?;
            match event {
                Event::Start(tag) => build.open(&tag, false)?,
                Event::Empty(tag) => build.open(&tag, true)?,
                // The reader has compared the names.
                Event::End(_) => drop(build.open.pop()),
                Event::Text(words) => build.text(&words)?,
                Event::CData(words) => build.inside(&words)?,
                Event::GeneralRef(name) => build.entity(&name, name.is_char_ref())?,
                Event::Eof => return build.finish(),
                _ => {}
            }
        }
    }

    /// The outermost element.
    pub(super) fn root(&self) -> XmlNode<'_, 'x> {
        XmlNode {
            document: self,
            index: 0,
        }
    }

    /// The line (from 1) of a place in the text.
    fn line(&self, at: usize) -> usize {
        let before = &self.source.as_bytes()[..at.min(self.source.len())];
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }
}

const OUTSIDE: &str = "this is not well-formed XML: there is text outside of the outermost element";

/// A document in the making.
struct Build<'x> {
    document: Document<'x>,
    /// The elements around the current place, each with its last child.
    open: Vec<(u32, Option<u32>)>,
}

impl<'x> Build<'x> {
    fn refuse(&self, at: usize, why: String) -> Refusal {
        Refusal {
            line: self.document.line(at),
            why,
        }
    }

    /// Where bytes of an event lie: events borrow from the text.
    fn place(&self, bytes: &[u8]) -> (usize, &'x str) {
        let source = self.document.source;
        let start = (bytes.as_ptr() as usize).saturating_sub(source.as_ptr() as usize);
        (start, source.get(start..start + bytes.len()).unwrap_or(""))
    }

    fn open(&mut self, tag: &BytesStart, is_empty: bool) -> Result<(), Refusal> {
        // The tag's bytes are those behind the `<`.
        let (start, inside) = self.place(tag);
        let index = self.document.elements.len();
        if index == MAX_ELEMENTS {
            let why = format!("it has more than {MAX_ELEMENTS} elements");
            return Err(self.refuse(start, why));
        }
        if self.open.is_empty() && index > 0 {
            let why = "this is not well-formed XML: a second outermost element".to_owned();
            return Err(self.refuse(start, why));
        }
        if self.open.len() == MAX_DEPTH {
            let why = format!("elements are nested deeper than {MAX_DEPTH}");
            return Err(self.refuse(start, why));
        }
        let name = inside.get(..tag.name().as_ref().len()).unwrap_or("");
        let attributes = self.attributes(start, inside, name.len())?;
        self.document.elements.push(XmlElement {
            name: name.rsplit(':').next().unwrap_or(name),
            start,
            attributes,
            text: "",
            first: None,
            next: None,
        });
        let index = index as u32;
        if let Some((parent, last)) = self.open.last_mut() {
            match last.replace(index) {
                Some(last) => self.document.elements[last as usize].next = Some(index),
                None => self.document.elements[*parent as usize].first = Some(index),
            }
        }
        if !is_empty {
            self.open.push((index, None));
        }
        Ok(())
    }

    fn attributes(
        &mut self,
        start: usize,
        inside: &'x str,
        name: usize,
    ) -> Result<(usize, usize), Refusal> {
        let first = self.document.attributes.len();
        let broken = |why: &dyn std::fmt::Display| format!("this is not well-formed XML: {why}");
        for attribute in Attributes::new(inside, name) {
            let count = self.document.attributes.len();
            if count - first == MAX_OF_ONE || count == MAX_ATTRIBUTES {
                let most = (MAX_OF_ONE, MAX_ATTRIBUTES);
                let why = format!("it has more than {} or {} attributes", most.0, most.1);
                return Err(self.refuse(start, why));
            }
            let attribute = attribute.map_err(|error| self.refuse(start, broken(&error)))?;
            let value = attribute
                .unescape_value()
                .map_err(|error| self.refuse(start, broken(&error)))?;
            let (_, key) = self.place(attribute.key.into_inner());
            self.document.attributes.push((key, value));
        }
        Ok((first, self.document.attributes.len()))
    }

    /// Words may only stand inside of an element.
    fn inside(&self, words: &[u8]) -> Result<(), Refusal> {
        match self.open.is_empty() {
            true => Err(self.refuse(self.place(words.trim_ascii_start()).0, OUTSIDE.to_owned())),
            false => Ok(()),
        }
    }

    fn text(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let (_, words) = self.place(bytes);
        if words.trim().is_empty() {
            return Ok(());
        }
        self.inside(bytes)?;
        if let Some(&(index, _)) = self.open.last() {
            let kept = &mut self.document.elements[index as usize].text;
            if kept.is_empty() {
                *kept = words;
            }
        }
        Ok(())
    }

    fn entity(&self, name: &[u8], is_number: bool) -> Result<(), Refusal> {
        self.inside(name)?;
        match name {
            b"amp" | b"lt" | b"gt" | b"quot" | b"apos" => Ok(()),
            _ if is_number => Ok(()),
            _ => {
                let start = self.place(name).0;
                let name = String::from_utf8_lossy(name);
                let why = format!("this is not well-formed XML: no entity `{name}` is known");
                Err(self.refuse(start, why))
            }
        }
    }

    fn finish(self) -> Result<Document<'x>, Refusal> {
        let why = match self.open.last() {
            Some(&(index, _)) => {
                let element = &self.document.elements[index as usize];
                let why = format!(
                    "this is not well-formed XML: <{}> is not closed",
                    element.name
                );
                return Err(self.refuse(element.start, why));
            }
            None if self.document.elements.is_empty() => {
                "this is not well-formed XML: there is no element in it".to_owned()
            }
            None => return Ok(self.document),
        };
        Err(self.refuse(0, why))
    }
}

impl<'d, 'x> XmlNode<'d, 'x> {
    fn element(self) -> &'d XmlElement<'x> {
        &self.document.elements[self.index as usize]
    }

    /// The name, without a prefix.
    pub(super) fn name(self) -> &'d str {
        self.element().name
    }

    /// Whether it has this name.
    pub(super) fn is(self, name: &str) -> bool {
        self.name() == name
    }

    /// The value of an attribute.
    pub(super) fn attribute(self, name: &str) -> Option<&'d str> {
        let (first, end) = self.element().attributes;
        let all = &self.document.attributes[first..end];
        let (_, value) = all.iter().find(|(key, _)| *key == name)?;
        Some(value)
    }

    /// All attributes.
    pub(super) fn attributes(self) -> impl Iterator<Item = (&'d str, &'d str)> {
        let (first, end) = self.element().attributes;
        let all = self.document.attributes[first..end].iter();
        all.map(|(key, value)| (*key, value.as_ref()))
    }

    /// The elements directly inside.
    pub(super) fn children(self) -> impl Iterator<Item = XmlNode<'d, 'x>> {
        let mut next = self.element().first;
        std::iter::from_fn(move || {
            let child = XmlNode {
                document: self.document,
                index: next?,
            };
            next = child.element().next;
            Some(child)
        })
    }

    /// The first text inside that is not blank.
    pub(super) fn text(self) -> &'d str {
        self.element().text
    }

    /// The line (from 1) on which it begins.
    pub(super) fn line(self) -> usize {
        self.document.line(self.element().start)
    }
}

/// The elements and attributes of a document once more as text, without anything else: a reader
/// with its own eyes for comments and declarations sees in it what was seen here. Elements that
/// programs attach (`userdata`) are left out, as they are nothing without their text.
pub(super) fn plain(document: &Document) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let mut open: Vec<(&str, Vec<XmlNode>)> = vec![("", vec![document.root()])];
    while let Some((name, rest)) = open.last_mut() {
        let Some(node) = rest.pop() else {
            if !name.is_empty() {
                out.push_str(&format!("</{name}>\n"));
            }
            open.pop();
            continue;
        };
        out.push_str(&format!("<{}", node.name()));
        for (key, value) in node.attributes() {
            out.push_str(&format!(" {key}=\"{}\"", quick_xml::escape::escape(value)));
        }
        out.push_str(">\n");
        let mut inside: Vec<XmlNode> = node.children().collect();
        inside.retain(|child| !child.is("userdata"));
        inside.reverse();
        open.push((node.name(), inside));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> (usize, String) {
        let Refusal { line, why } = Document::parse(text).err().expect(text);
        (line, why)
    }

    #[test]
    fn elements_attributes_text_and_lines() {
        let text = "\u{feff}<?xml version='1.0'?>\n<!DOCTYPE a SYSTEM \"a.dtd\">\n\
                    <!-- <no> -->\n<a x='1 &amp; 2' y=\"&#65;\">\n <b/> <![CDATA[<no>]]>\n\
                    <c z='>'>  4 5 <!-- no --> 6</c><userdata>7</userdata></a>\n";
        let document = Document::parse(text).unwrap();
        let root = document.root();
        assert_eq!((root.name(), root.line()), ("a", 4));
        assert_eq!(
            root.attributes().collect::<Vec<_>>(),
            [("x", "1 & 2"), ("y", "A")]
        );
        let inside: Vec<XmlNode> = root.children().collect();
        let names: Vec<&str> = inside.iter().map(|node| node.name()).collect();
        assert_eq!(names, ["b", "c", "userdata"]);
        assert_eq!((inside[1].text().trim(), inside[1].line()), ("4 5", 6));
        assert_eq!(inside[1].attribute("z"), Some(">"));
        assert_eq!(inside[1].attribute("y"), None);
        let again = plain(&document);
        let again = Document::parse(&again).unwrap();
        assert_eq!(again.root().attribute("x"), Some("1 & 2"));
        assert_eq!(again.root().children().count(), 2);
    }

    /// Whatever hides them from a scan: levels are counted where they are opened.
    #[test]
    fn nesting_is_bounded_whatever_stands_before() {
        let deep = |levels| format!("{}{}", "<a>".repeat(levels), "</a>".repeat(levels));
        assert!(Document::parse(&deep(MAX_DEPTH)).is_ok());
        for before in [
            "",
            "<!DOCTYPE t [<!ATTLIST a b CDATA \"<!--\">]>",
            "<!DOCTYPE t [<!ATTLIST a b CDATA '<![CDATA['>]>",
            "<?xml version='1?><!--'?>",
            "<?a ?><!-- --><!DOCTYPE t SYSTEM '<!--'>",
        ] {
            let (_, why) = refusal(&format!("{before}{}", deep(2_000_000)));
            let told = ["nested deeper than 100", "not well-formed"];
            assert!(
                told.iter().any(|words| why.contains(words)),
                "{before} {why}"
            );
        }
        let (line, why) = refusal(&format!("<r>\n\n{}</r>", deep(MAX_DEPTH)));
        assert_eq!((line, why.contains("nested deeper than 100")), (3, true));
    }

    #[test]
    fn what_is_not_well_formed_is_refused_with_its_line() {
        for (text, line) in [
            ("", 1),
            ("<", 1),
            ("<a", 1),
            ("\n<!--", 2),
            ("<a b='>", 1),
            ("\u{f6}<\u{f6}>", 1),
            ("<a>\n<b>\n</a>", 3),
            ("<a>\n<b c=1/></a>", 2),
            ("<a>\n<b c='1' c='2'/></a>", 2),
            ("<a/>\n<b/>", 2),
            ("<a/>\ntext", 2),
            ("<a>\n&b;</a>", 2),
            ("<a b='\n&c;'/>", 1),
            ("<a>\n", 1),
        ] {
            let (at, why) = refusal(text);
            assert_eq!(at, line, "{text:?}: {why}");
            assert!(why.contains("not well-formed"), "{text:?}: {why}");
        }
    }

    /// Entities that multiply say nothing, and what nobody can need is too much.
    #[test]
    fn small_files_do_not_become_large() {
        let entities = "<!DOCTYPE t [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]>";
        assert!(refusal(&format!("{entities}<t>&b;</t>")).1.contains("`b`"));
        assert!(refusal(&format!("{entities}<t c='&b;'/>")).1.contains("b"));
        let many: String = (0..=MAX_OF_ONE).map(|n| format!(" a{n}=''")).collect();
        assert!(refusal(&format!("<t{many}/>")).1.contains("more than 64"));
        let many = format!("<t>{}</t>", "<a/>".repeat(MAX_ELEMENTS));
        assert!(refusal(&many).1.contains("more than 262144 elements"));
    }
}
