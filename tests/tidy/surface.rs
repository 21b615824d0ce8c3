//! Surface for programs in Rust: the names that `src/lib.rs` shows, and their public functions.
//!
//! Everything else is marked `#[doc(hidden)]`. `docs/rust-api.md` lists what is left, so that
//! nothing becomes public, or changes, without somebody seeing it. `KOLO_BLESS=1 cargo test --test
//! tidy` writes it.

use crate::source::Source;
use std::fmt::Write;

/// One public function or constant.
struct Item {
    owner: String,
    signature: String,
    what: String,
}

/// A module of the root that is neither hidden nor the one for types.
pub fn shown_rooms(lib: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (i, line) in lib.code.iter().enumerate() {
        let is_room = line.starts_with("pub mod ") && !line.starts_with("pub mod types ");
        let hidden = i > 0 && lib.code[i - 1].trim() == "#[doc(hidden)]";
        if is_room && !hidden {
            found.push(lib.fault(i, "mark rooms #[doc(hidden)]: programs use the names below"));
        }
    }
    found
}

/// The names of `pub use` in the lines, in their order.
fn names(lines: &[String]) -> Vec<String> {
    let text = lines.join(" ");
    let mut found = Vec::new();
    for part in text.split("pub use ").skip(1) {
        let list = part.split(';').next().unwrap_or_default();
        let list = match list.split_once('{') {
            Some((_, inner)) => inner.trim_end().trim_end_matches('}'),
            None => list.rsplit("::").next().unwrap_or_default(),
        };
        let parts = list.split(',').map(str::trim);
        let last = |name: &str| name.rsplit("::").next().unwrap_or_default().to_owned();
        found.extend(parts.filter(|name| !name.is_empty()).map(last));
    }
    found
}

/// The type that a line `impl ... {` is about, unless it implements a trait.
fn implemented(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    if rest.contains(" for ") {
        return None;
    }
    let rest = match rest.strip_prefix('<') {
        Some(generic) => generic.split_once('>')?.1,
        None => rest,
    };
    let name = rest.trim().split(['<', ' ']).next()?;
    name.rsplit("::").next()
}

/// The first sentence of the documentation above line `at`; None where it is hidden.
fn documented(source: &Source, at: usize) -> Option<String> {
    let mut above = Vec::new();
    let mut in_attribute = false;
    for line in source.raw[..at].iter().rev().map(|line| line.trim()) {
        let begins = line.starts_with("///") || line.starts_with("#[");
        if !begins && !in_attribute && line != ")]" {
            break;
        }
        // The lines of an attribute of several lines, from its end up to its beginning.
        in_attribute = !begins;
        above.push(line);
    }
    if above.contains(&"#[doc(hidden)]") {
        return None;
    }
    let mut text = String::new();
    for line in above
        .iter()
        .rev()
        .filter_map(|line| line.strip_prefix("///"))
    {
        if line.trim().is_empty() {
            break;
        }
        text.push_str(line);
    }
    let text = text.trim();
    let end = text.find(". ").map_or(text.len(), |end| end + 1);
    Some(without_links(&text[..end]))
}

/// The text of a comment without what makes links of its names.
fn without_links(text: &str) -> String {
    let mut text = text.replace("`](", "`]\0(");
    while let Some((start, rest)) = text.split_once("\0(") {
        let end = rest.find(')').map_or(rest.len(), |end| end + 1);
        text = format!("{start}{}", &rest[end..]);
    }
    text.replace("[`", "`").replace("`]", "`")
}

/// Signature that is declared from line `at` on, up to its body, on one line.
fn signature(source: &Source, at: usize) -> String {
    let mut text = String::new();
    for line in &source.raw[at..] {
        let line = line.trim();
        write!(text, "{} ", line.trim_end_matches(['{', ';']).trim()).unwrap();
        if line.ends_with(['{', ';']) || line.ends_with("{}") {
            break;
        }
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ").replace("$($life)? ", "");
    let text = text.replace("( ", "(").replace(", )", ")");
    text.trim_start_matches("pub ").to_owned()
}

fn is_declaration(line: &str) -> bool {
    ["pub fn ", "pub unsafe fn ", "pub const fn ", "pub const "]
        .iter()
        .any(|word| line.starts_with(word))
}

/// The public functions of one file.
fn items(source: &Source) -> Vec<Item> {
    let mut found = Vec::new();
    let mut owner = None;
    for (i, line) in source.code.iter().enumerate() {
        if line.starts_with('}') {
            owner = None;
        } else if line.starts_with("impl") {
            owner = implemented(line).map(str::to_owned);
        } else if line.starts_with("macro_rules! calls")
            || line.starts_with("macro_rules! block_calls")
        {
            // Written once for both.
            owner = Some("Communicator and Scope".to_owned());
        }
        let Some(owner) = owner.as_ref().filter(|_| is_declaration(line.trim_start())) else {
            continue;
        };
        if let Some(what) = documented(source, i) {
            let (owner, signature) = (owner.clone(), signature(source, i));
            found.push(Item {
                owner,
                signature,
                what,
            });
        }
    }
    found
}

/// The operations, which a macro declares.
fn operations(source: &Source) -> Vec<Item> {
    let lines = source.raw.iter().enumerate();
    let inside = lines.skip_while(|(_, line)| !line.starts_with("handles! {"));
    let inside = inside.take_while(|(_, line)| !line.starts_with('}'));
    let item = |(i, line): (usize, &String)| {
        let name = line.trim().split_once(" = ")?.0;
        Some(Item {
            owner: "RedOp".to_owned(),
            signature: format!("const {name}: RedOp"),
            what: documented(source, i)?,
        })
    };
    inside.filter_map(item).collect()
}

/// Where a macro makes a type of the documented line `NAME(..)` or `NAME { .. }`.
fn made_by_macro<'a>(sources: &[&'a Source], name: &str) -> Option<(&'a Source, usize)> {
    sources.iter().find_map(|source| {
        let is_made = |i: &usize| {
            let rest = source.code[*i].strip_prefix("    ");
            let rest = rest.and_then(|line| line.strip_prefix(name));
            rest.is_some_and(|rest| rest.starts_with('(') || rest.starts_with(" {"))
                && *i > 0
                && source.raw[*i - 1].trim().starts_with("///")
        };
        (0..source.code.len()).find(is_made).map(|at| (*source, at))
    })
}

/// The names of the module of types from line `from` on, each with its first sentence: of its
/// declaration, or of the `pub use` of one that is declared elsewhere.
fn listed_types(lib: &Source, from: usize, dtype: &[&Source]) -> Vec<Item> {
    let mut found = Vec::new();
    for (at, line) in lib.code.iter().enumerate().skip(from) {
        if !line.trim_start().starts_with("pub use ") {
            continue;
        }
        let rest = &lib.code[at..];
        let end = rest.iter().position(|line| line.contains(';'));
        for name in names(&rest[..=end.unwrap_or(0)]) {
            let declared = declaration(dtype, &name).or_else(|| made_by_macro(dtype, &name));
            let own = declared.and_then(|(source, at)| documented(source, at));
            let used = documented(lib, at).filter(|text| !text.is_empty());
            found.push(Item {
                owner: "types".to_owned(),
                signature: name,
                what: used.or(own).unwrap_or_default(),
            });
        }
    }
    found
}

/// Names of the page that have no sentence.
pub fn unexplained(page: &str) -> Vec<String> {
    let lines: Vec<&str> = page.lines().collect();
    let is_bare = |i: &usize| match lines[*i] {
        line if line.starts_with("## ") => lines.get(i + 2).is_none_or(|text| text.is_empty()),
        line if line.starts_with("- `") => {
            lines.get(i + 1).is_none_or(|text| text.trim().is_empty())
        }
        _ => false,
    };
    let bare = (0..lines.len()).filter(is_bare);
    bare.map(|i| format!("docs/rust-api.md: nothing is said of {}", lines[i].trim()))
        .collect()
}

/// Where a type, trait or constant of this name is declared: file and line.
fn declaration<'a>(sources: &[&'a Source], name: &str) -> Option<(&'a Source, usize)> {
    let kinds = ["struct", "enum", "trait", "type", "const"];
    for source in sources {
        for (i, line) in source.code.iter().enumerate() {
            let declares = kinds.iter().any(|kind| {
                let line = line
                    .trim_start_matches("pub ")
                    .trim_start_matches("unsafe ");
                let rest = line
                    .strip_prefix(kind)
                    .and_then(|rest| rest.strip_prefix(' '));
                rest.and_then(|rest| rest.strip_prefix(name))
                    .is_some_and(|rest| {
                        !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
                    })
            });
            if declares && line.starts_with("pub ") {
                return Some((source, i));
            }
        }
    }
    None
}

/// The public fields of a struct, or the variants of an enumeration, that is declared in line `at`.
fn parts(source: &Source, at: usize) -> Vec<Item> {
    if !source.code[at].trim_end().ends_with('{') {
        return Vec::new();
    }
    let is_enum = source.code[at].contains("enum ");
    let mut found = Vec::new();
    for (i, line) in source.code.iter().enumerate().skip(at + 1) {
        if line.starts_with('}') {
            break;
        }
        let Some(part) = line.strip_prefix("    ").filter(|it| !it.starts_with(' ')) else {
            continue;
        };
        let is_part = match is_enum {
            true => part.starts_with(char::is_uppercase),
            false => part.starts_with("pub "),
        };
        if let Some(what) = documented(source, i).filter(|_| is_part) {
            let signature = part
                .trim_start_matches("pub ")
                .trim_end()
                .trim_end_matches(',');
            found.push(Item {
                owner: String::new(),
                signature: signature.to_owned(),
                what,
            });
        }
    }
    found
}

/// The page: every name of the root with its functions, then the types.
pub fn page(lib: &Source, sources: &[Source]) -> String {
    let types = lib
        .code
        .iter()
        .position(|line| line.starts_with("pub mod types"));
    let (root, _) = lib.code.split_at(types.unwrap_or(lib.code.len()));
    let product: Vec<&Source> = sources
        .iter()
        // Its graph is another one than that of communicators, and is hidden.
        .filter(|s| s.path.starts_with("src/") && !s.path.starts_with("src/topo/"))
        .collect();
    let mut items: Vec<Item> = product.iter().flat_map(|source| items(source)).collect();
    items.extend(product.iter().flat_map(|source| operations(source)));
    let mut text = String::from(
        "# The Rust interface\n\nMade of the source by `KOLO_BLESS=1 cargo test --test tidy`: do \
         not edit. `cargo doc --open` shows the same with\nall it \
         says. What neither shows is not meant for programs. `examples/rust` has programs.\n",
    );
    for name in names(root) {
        let also = if name == "Communicator" {
            "Communicator and Scope"
        } else {
            ""
        };
        let declared = declaration(&product, &name);
        let about = declared.and_then(|(source, at)| documented(source, at));
        write!(text, "\n## `{name}`\n\n{}\n", about.unwrap_or_default()).unwrap();
        let parts = declared.map_or_else(Vec::new, |(source, at)| parts(source, at));
        for (number, part) in parts.iter().enumerate() {
            let before = if number == 0 { "\n" } else { "" };
            writeln!(text, "{before}- `{}`  \n  {}", part.signature, part.what).unwrap();
        }
        for (title, owner) in [("\n", name.as_str()), ("\nAlso in a `Scope`:\n\n", also)] {
            let mut own = items.iter().filter(|item| item.owner == owner).peekable();
            if own.peek().is_some() {
                text.push_str(title);
            }
            for item in own {
                writeln!(text, "- `{}`  \n  {}", item.signature, item.what).unwrap();
            }
        }
    }
    let about = documented(lib, root.len()).unwrap_or_default();
    write!(text, "\n## `types`\n\n{about}\n\n").unwrap();
    let dtype: Vec<&Source> = product
        .into_iter()
        .filter(|source| source.path.starts_with("src/dtype/"))
        .collect();
    for item in listed_types(lib, root.len(), &dtype) {
        writeln!(text, "- `{}`  \n  {}", item.signature, item.what).unwrap();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "//! x
/// A ring. Round.
pub struct Ring;
impl Ring {
    /// Turns it. Fast.
    pub fn turn(&self, by: [u32; 2]) -> u32 {
        by
    }
    /// Inner.
    #[doc(hidden)]
    pub fn inner(&self) {}
    fn own(&self) {}
}
impl Drop for Ring {
    pub fn drop() {}
}
";

    #[test]
    fn what_is_hidden_private_or_of_a_trait_is_not_listed() {
        let lib = Source::new("src/lib.rs", "pub use ring::Ring;\n");
        let page = page(&lib, &[Source::new("src/comm/ring.rs", SAMPLE)]);
        assert!(page.contains("## `Ring`\n\nA ring.\n"), "{page}");
        assert!(
            page.contains("- `fn turn(&self, by: [u32; 2]) -> u32`  \n  Turns it.\n"),
            "{page}"
        );
        assert_eq!(page.matches("- `").count(), 1, "{page}");
    }

    #[test]
    fn fields_and_variants_are_listed_unless_they_are_hidden() {
        let lib = Source::new("src/lib.rs", "pub use ring::{Ring, Turn};\n");
        let sample = "/// A ring.
pub struct Ring {
    /// How wide. In metres.
    pub width: u32,
    /// Inner.
    #[doc(hidden)]
    pub inner: u32,
    own: u32,
}
/// A turn.
#[repr(i32)]
pub enum Turn<'a> {
    /// To the left.
    Left(&'a [u32]),
    /// To the right.
    Right = 1,
}
";
        let page = page(&lib, &[Source::new("src/comm/ring.rs", sample)]);
        for listed in [
            "A ring.\n\n- `width: u32`  \n  How wide.\n\n## `Turn`",
            "A turn.\n\n- `Left(&'a [u32])`  \n  To the left.\n- `Right = 1`  \n  To the right.\n",
        ] {
            assert!(page.contains(listed), "{page}");
        }
        assert_eq!(page.matches("- `").count(), 3, "{page}");
    }

    #[test]
    fn types_are_explained_where_they_are_declared_made_or_used() {
        let lib = "pub use dtype::Element;
/// Further elements. Many.
pub mod types {
    pub use crate::dtype::{
        Whole, Pair,
    };
    /// Of another crate.
    pub use crate::dtype::Complex;
    pub use crate::dtype::Bare;
}
";
        let sample = "/// An element. Sealed.
#[diagnostic::on_unimplemented(
    message = \"no\",
    note = \"[never]\"
)]
pub unsafe trait Element: Copy {
}
wrappers! {
    /// Eight bits. All of them.
    Whole(u8);
    /// Two numbers.
    Pair { f64, i32, padding }
}
fn other() {
    Bare(1);
}
";
        let lib = Source::new("src/lib.rs", lib);
        let page = page(&lib, &[Source::new("src/dtype/element.rs", sample)]);
        let wanted = "## `Element`\n\nAn element.\n\n## `types`\n\nFurther elements.\n\n\
            - `Whole`  \n  Eight bits.\n- `Pair`  \n  Two numbers.\n\
            - `Complex`  \n  Of another crate.\n- `Bare`  \n  \n";
        assert!(page.ends_with(wanted), "{page}");
        let bare = ["docs/rust-api.md: nothing is said of - `Bare`"];
        assert_eq!(unexplained(&page), bare);
        assert_eq!(unexplained("## `A`\n\n\n## `B`\n\nText\n").len(), 1);
    }

    #[test]
    fn a_room_must_be_hidden() {
        let bad = "#[doc(hidden)]\npub mod algo;\npub mod base;\npub mod types {\n}\n";
        let found = shown_rooms(&Source::new("src/lib.rs", bad));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("src/lib.rs:3"));
    }

    #[test]
    fn names_of_uses_in_braces_and_alone() {
        let lines = ["pub use a::b::C;", "pub use d::{E, F,", "    G};"].map(str::to_owned);
        assert_eq!(names(&lines), ["C", "E", "F", "G"]);
    }
}
