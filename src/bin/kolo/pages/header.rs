//! The C headers as a list of calls, types and constants, each with its comment.
//!
//! kolo.h is generated, so its form is known: a comment, then what it is about. A comment before
//! calls without one of their own is about all of them.

/// A function.
pub struct CCall {
    /// Its name.
    pub name: String,
    /// Its declaration, in lines.
    pub lines: String,
    /// Its comment.
    pub doc: String,
}

/// A type, or a constant.
pub struct CType {
    /// Its name; of a constant with its value.
    pub name: String,
    /// Its comment.
    pub doc: String,
    /// Members, each with its comment.
    pub members: Vec<(String, String)>,
}

/// A header.
pub struct CHeader {
    /// Its file name.
    pub file: String,
    /// Text of its first comment.
    pub about: String,
    /// Functions, in their order.
    pub calls: Vec<CCall>,
    /// Types.
    pub types: Vec<CType>,
    /// Numbers that have a name.
    pub constants: Vec<CType>,
}

impl CHeader {
    /// Reads a header.
    pub fn parse(file: &str, text: &str) -> CHeader {
        let mut header = CHeader {
            file: file.to_string(),
            about: String::new(),
            calls: Vec::new(),
            types: Vec::new(),
            constants: Vec::new(),
        };
        let mut lines = text.lines();
        let mut doc = String::new();
        while let Some(line) = lines.next() {
            if line.starts_with("/*") {
                doc = comment(line, &mut lines);
                if header.about.is_empty() {
                    header.about.clone_from(&doc);
                }
            } else if let Some(rest) = line.strip_prefix("#define ") {
                if let Some(constant) = constant(rest, &doc) {
                    header.constants.push(constant);
                }
            } else if line.starts_with("typedef ") {
                header.types.push(a_type(line, &doc, &mut lines));
            } else if let Some(call) = call(line, &doc, &mut lines) {
                header.calls.push(call);
            }
        }
        header
    }
}

/// The text of a comment that begins at `line`.
fn comment<'a>(line: &'a str, lines: &mut impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    let mut line = line.trim().trim_start_matches('/').trim_start_matches('*');
    loop {
        text.push_str(line.trim_end_matches("*/").trim());
        text.push('\n');
        if line.ends_with("*/") {
            break;
        }
        let Some(next) = lines.next() else { break };
        // The last line may be the end mark alone.
        let next = next.trim();
        line = match next {
            "*/" => next,
            _ => next.strip_prefix('*').unwrap_or(next),
        };
    }
    text.trim().to_string()
}

/// A number with a name: what a macro with an argument or of several lines is not.
fn constant(rest: &str, doc: &str) -> Option<CType> {
    let (name, value) = rest.split_once(' ')?;
    let is_plain = !name.contains('(') && !value.ends_with('\\') && !value.starts_with('_');
    (is_plain && name.starts_with("KOLO_")).then(|| CType {
        name: format!("{name} {value}"),
        doc: doc.to_string(),
        members: Vec::new(),
    })
}

fn a_type<'a>(first: &'a str, doc: &str, lines: &mut impl Iterator<Item = &'a str>) -> CType {
    let mut members = Vec::new();
    let mut last = first.to_string();
    if first.ends_with('{') {
        let mut about = String::new();
        while let Some(line) = lines.next() {
            if line.starts_with('}') {
                last = line.to_string();
                break;
            }
            match line.trim() {
                start if start.starts_with("/*") => about = comment(start, lines),
                member => members.push((
                    member.trim_end_matches([',', ';']).to_string(),
                    std::mem::take(&mut about),
                )),
            }
        }
    } else {
        while !last.ends_with(';') {
            let Some(line) = lines.next() else { break };
            last.push(' ');
            last.push_str(line.trim());
        }
    }
    CType {
        name: type_name(&last),
        doc: doc.to_string(),
        members,
    }
}

/// The name that a `typedef` ends with, or that of its pointer to a function.
fn type_name(text: &str) -> String {
    let whole = text.trim_end_matches(';');
    let name = match whole.split_once("(*") {
        Some((_, rest)) => rest.split(')').next(),
        None => whole.rsplit([' ', '*', '}']).next(),
    };
    name.unwrap_or_default().to_string()
}

fn call<'a>(line: &'a str, doc: &str, lines: &mut impl Iterator<Item = &'a str>) -> Option<CCall> {
    let (before, _) = line.split_once('(')?;
    let name = before.rsplit([' ', '*']).next()?;
    if !name.starts_with("kolo") || line.starts_with([' ', '#']) {
        return None;
    }
    let mut text = line.to_string();
    while !text.ends_with(';') {
        text.push('\n');
        text.push_str(lines.next()?);
    }
    Some(CCall {
        name: name.to_string(),
        lines: text,
        doc: doc.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KOLO_H: &str = include_str!("../../../../bindings/c/include/kolo.h");

    #[test]
    fn every_call_type_and_member_is_found() {
        let header = CHeader::parse("kolo.h", KOLO_H);
        // Counted in another way: a declaration is where a name stands before a parenthesis.
        let declared = KOLO_H.lines().filter(|line| {
            let starts = ["koloResult_t kolo", "const char *kolo"];
            starts.iter().any(|start| line.starts_with(start)) && line.contains('(')
        });
        assert_eq!(header.calls.len(), declared.count());
        for call in &header.calls {
            assert!(call.lines.ends_with(");"), "{}", call.lines);
            assert!(!call.doc.is_empty(), "{}", call.name);
        }
        let typedefs = KOLO_H.lines().filter(|line| line.starts_with("typedef "));
        assert_eq!(header.types.len(), typedefs.count());
        let named = |name: &str| header.types.iter().find(|item| item.name == name).unwrap();
        assert!(named("koloUserFunction_t").doc.contains("inout"));
        let config = &named("koloConfig_t").members;
        assert!(
            config
                .iter()
                .any(|(name, doc)| name == "int blocking" && doc.contains("0:"))
        );
    }

    #[test]
    fn a_comment_is_about_all_calls_until_the_next() {
        let text = "/**\n * One.\n */\nkoloResult_t koloA(int a,\n    int b);\n\n\
                    /* Both: as\n * said. */\nkoloResult_t koloB(void);\n\
                    koloResult_t koloC(void);\n";
        let header = CHeader::parse("x.h", text);
        let said: Vec<_> = header.calls.iter().map(|call| call.doc.as_str()).collect();
        assert_eq!(said, ["One.", "Both: as\nsaid.", "Both: as\nsaid."]);
        assert_eq!(
            header.calls[0].lines,
            "koloResult_t koloA(int a,\n    int b);"
        );
    }
}
