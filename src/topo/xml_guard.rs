//! Keeps hostile files away from the XML reader.
//!
//! The reader (and libhwloc) calls itself once per level of nesting, so a small file with ten
//! thousand levels would overflow the stack and take the program down; and entities let a small
//! file say something enormous. A topology has fewer than 30 levels and no entities, so both are
//! refused here, by a scan that looks at nothing but the beginnings and ends of elements.

/// Elements may be nested this deep.
pub(super) const MAX_DEPTH: usize = 100;

/// Why the text must not be parsed, with the line (from 1) where that shows; `None` if it may. Text
/// that is not well-formed may pass: up to its first error this scan and a parser see the same.
pub(super) fn objection(text: &str) -> Option<(usize, String)> {
    let (mut at, mut depth) = (0, 0_usize);
    let objects = |at: usize, why: String| Some((1 + text[..at].matches('\n').count(), why));
    while let Some(found) = text[at..].find('<') {
        let start = at + found;
        let rest = &text[start..];
        let skip = |end: &str| rest.find(end).map(|found| start + found + end.len());
        let next = if rest.starts_with("<!--") {
            skip("-->")
        } else if rest.starts_with("<![CDATA[") {
            skip("]]>")
        } else if rest.starts_with("<?") {
            skip("?>")
        } else if rest.starts_with("<!ENTITY") {
            return objects(start, "it defines an entity".to_owned());
        } else if rest.starts_with("<!") {
            // Only past the beginning: what is declared inside a DOCTYPE is looked at too.
            Some(start + 2)
        } else if rest.starts_with("</") {
            depth = depth.saturating_sub(1);
            Some(start + 2)
        } else {
            let end = end_of_tag(rest).map(|length| start + length);
            if !end.is_some_and(|end| text[..end].ends_with("/>")) {
                depth += 1;
            }
            end
        };
        if depth > MAX_DEPTH {
            return objects(
                start,
                format!("elements are nested deeper than {MAX_DEPTH}"),
            );
        }
        at = next?;
    }
    None
}

/// The length of the tag at the beginning of `rest`; a `>` between quotes does not end it.
fn end_of_tag(rest: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in rest.bytes().enumerate() {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'>') => return Some(at + 1),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_counted_and_nothing_else() {
        let deep = |levels| format!("{}{}", "<a>".repeat(levels), "</a>".repeat(levels));
        assert_eq!(objection(&deep(MAX_DEPTH)), None);
        let (line, why) = objection(&format!("<r>\n\n{}</r>", deep(MAX_DEPTH))).unwrap();
        assert_eq!(
            (line, why.as_str()),
            (3, "elements are nested deeper than 100")
        );
        let flat = [
            "<a/>",
            "<a b='/' c=\">\"></a>",
            "<!-- <a> -->",
            "<![CDATA[<a><a>]]>",
            "<?a <a> ?>",
            "<a b='<a>'/>",
        ];
        let many: String = flat.iter().map(|text| text.repeat(MAX_DEPTH + 1)).collect();
        assert_eq!(
            objection(&format!("<!DOCTYPE r SYSTEM \"r.dtd\"><r>{many}</r>")),
            None
        );
        let hidden = "<a b=\"/>\">".repeat(MAX_DEPTH + 1);
        assert!(objection(&hidden).is_some(), "a quoted end is no end");
    }

    #[test]
    fn entities_are_refused() {
        let text = "<!DOCTYPE t [\n<!ENTITY a \"<b><b>\">]><t>&a;</t>";
        assert_eq!(
            objection(text),
            Some((2, "it defines an entity".to_owned()))
        );
    }

    #[test]
    fn broken_text_is_left_to_the_parser() {
        for text in ["", "<", "<a", "<!--", "<a b='>", "\u{f6}<\u{f6}>"] {
            assert_eq!(objection(text), None, "{text}");
        }
    }
}
