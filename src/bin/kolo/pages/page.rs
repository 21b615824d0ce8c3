//! One manual page: sections, paragraphs and lists, as roff.

use roff::{Inline, Roff, bold, roman};

/// When the words of the pages were last looked through; a page says so at its foot.
pub const DATE: &str = "2026-11-23";

/// One file to be: its place under `share`, and what is in it.
pub type Leaf = (String, String);

/// Text at the foot of every page, on the left.
pub fn source() -> String {
    format!("kolo {}", env!("CARGO_PKG_VERSION"))
}

/// A page that is being written.
pub struct Page {
    roff: Roff,
    /// Whether a heading was the last: the first paragraph below it needs no mark.
    headed: bool,
}

impl Page {
    /// A page with its head and its section NAME.
    pub fn new(name: &str, section: u32, what: &str) -> Page {
        Page::with_names(name, "", section, what)
    }

    /// A page of something with more names, each behind a comma.
    pub fn with_names(name: &str, more: &str, section: u32, what: &str) -> Page {
        let mut page = Page::empty();
        let (section, source) = (section.to_string(), source());
        let title = name.to_uppercase();
        let words = [&title, &section, DATE, &source, "kolo manual"];
        page.roff.control("TH", words.map(|word: &str| word));
        page.section("NAME");
        page.roff.text([roman(format!("{name}{more} - {what}"))]);
        page
    }

    /// The rest of a page whose head is written elsewhere.
    pub fn empty() -> Page {
        Page {
            roff: Roff::new(),
            headed: true,
        }
    }

    /// Begins a section.
    pub fn section(&mut self, title: &str) -> &mut Page {
        self.roff.control("SH", [title]);
        self.headed = true;
        self
    }

    /// Begins a part of a section.
    pub fn part(&mut self, title: &str) -> &mut Page {
        self.roff.control("SS", [title]);
        self.headed = true;
        self
    }

    /// Paragraphs, which empty lines separate. What stands in backticks is bold.
    pub fn text(&mut self, text: &str) -> &mut Page {
        for paragraph in paragraphs(text) {
            self.begin();
            self.roff.text(inline(&paragraph));
        }
        self
    }

    /// Begins a paragraph.
    fn begin(&mut self) {
        if !std::mem::take(&mut self.headed) {
            self.roff.control("PP", []);
        }
    }

    /// An entry of a list: a word, and what it means.
    pub fn entry(&mut self, word: &str, text: &str) -> &mut Page {
        self.headed = false;
        self.roff.control("TP", []);
        self.roff.text([bold(word)]);
        for (number, paragraph) in paragraphs(text).enumerate() {
            if number > 0 {
                self.roff.control("IP", []);
            }
            self.roff.text(inline(&paragraph));
        }
        self
    }

    /// Lines as they are.
    pub fn lines(&mut self, text: &str) -> &mut Page {
        self.begin();
        self.roff.control("nf", []);
        for line in text.lines() {
            // An empty line of the source is a mistake to some that read roff.
            if line.trim().is_empty() {
                self.roff.control("sp", [])
            } else {
                self.roff.text([roman(line)])
            };
        }
        self.roff.control("fi", []);
        self
    }

    /// Names of other pages, as `kolo(7)`.
    pub fn see_also(&mut self, names: &[&str]) -> &mut Page {
        self.section("SEE ALSO").text(&names.join(", "))
    }

    /// The page in roff. Quotes are those of ASCII, so that what is copied works.
    pub fn render(&self) -> String {
        self.roff.to_roff()
    }
}

/// Paragraphs, each in one line.
pub fn paragraphs(text: &str) -> impl Iterator<Item = String> {
    let mut all = vec![String::new()];
    for line in text.lines().map(str::trim) {
        match (line.is_empty(), all.last_mut()) {
            (false, Some(last)) => {
                if !last.is_empty() {
                    last.push(' ');
                }
                last.push_str(line);
            }
            _ => all.push(String::new()),
        }
    }
    all.into_iter().filter(|paragraph| !paragraph.is_empty())
}

/// Words of one paragraph; every second piece between backticks is bold.
fn inline(paragraph: &str) -> Vec<Inline> {
    let piece = |(number, text): (usize, &str)| match number % 2 {
        0 => roman(text),
        _ => bold(text),
    };
    paragraph.split('`').enumerate().map(piece).collect()
}

/// The first sentence, without its full stop and backquotes.
pub fn first_sentence(text: &str) -> String {
    opening(text).replace('`', "")
}

/// The first sentence, without its full stop.
pub fn opening(text: &str) -> String {
    let line = paragraphs(text).next().unwrap_or_default();
    let end = line.find(". ").unwrap_or(line.len());
    line[..end].trim_end_matches(['.', ':']).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_roff_would_take_for_its_own_is_text() {
        let mut page = Page::new("kolo", 7, "a dance");
        page.section("X").text(".TH in `\\fB`, and 'this\n\nnext");
        let text = page.render();
        assert!(text.contains("\\&.TH in \\fB\\\\fB\\fR, and "), "{text}");
        assert!(text.contains("\n.PP\nnext"), "{text}");
    }

    #[test]
    fn a_sentence_ends_where_the_next_begins() {
        assert_eq!(first_sentence("Sums `x`.\nThen\nmore."), "Sums x");
        assert_eq!(first_sentence("As kolo.h says:\n\nno"), "As kolo.h says");
    }
}
