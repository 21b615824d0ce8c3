//! Every `unsafe` says why it holds.
//!
//! A block or an implementation has a comment with the word SAFETY directly above its statement; a
//! public unsafe function has a section `# Safety` in its documentation. A function that is
//! exported to C is documented for readers of the header, which states the contract once for all.

use crate::source::Source;

pub fn faults(source: &Source) -> Vec<String> {
    if !source.is_rust() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (i, line) in source.code.iter().enumerate() {
        for (at, _) in line.match_indices("unsafe") {
            let after = following(&source.code, i, at + "unsafe".len());
            if !is_word(line, at) {
                continue;
            }
            if (after.starts_with('{') || after.starts_with("impl")) && !has_note(source, i) {
                found.push(source.fault(i, "`unsafe` without a comment `// SAFETY:` just above"));
            }
            let before = line[..at].trim_start();
            let declares = after.starts_with("fn ") || is_extern_fn(&after);
            if before.starts_with("pub") && declares && !documents_safety(source, i) {
                found.push(source.fault(i, "public unsafe function without `# Safety`"));
            }
        }
    }
    found
}

fn is_word(line: &str, at: usize) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    !line[..at].ends_with(part) && !line[at + "unsafe".len()..].starts_with(part)
}

/// The code after a position, with the next lines when this one ends there.
fn following(code: &[String], line: usize, at: usize) -> String {
    let rest = code[line][at..].trim();
    if rest.is_empty() {
        code.get(line + 1)
            .map_or(String::new(), |next| next.trim().to_owned())
    } else {
        rest.to_owned()
    }
}

/// `extern "C" fn name`; the string is already blank, and a type has no name.
fn is_extern_fn(after: &str) -> bool {
    let words: Vec<&str> = after.split_whitespace().collect();
    words.first() == Some(&"extern") && words.get(1) == Some(&"fn") && words.len() > 2
}

/// Whether a comment above the statement that holds line `at`, or on the line, has the word.
fn has_note(source: &Source, at: usize) -> bool {
    let noted = |i: usize| source.raw[i].contains("SAFETY:");
    if noted(at) {
        return true;
    }
    let mut i = at;
    let mut in_comment = false;
    while i > 0 {
        i -= 1;
        let raw = source.raw[i].trim();
        let code = source.code[i].trim();
        if raw.starts_with("//") {
            if noted(i) {
                return true;
            }
            in_comment = true;
        } else if in_comment || raw.is_empty() {
            return false;
        } else if code.starts_with("#[") {
            continue;
        } else if code.ends_with([';', '{', '}', ',']) {
            return false;
        }
    }
    false
}

fn documents_safety(source: &Source, at: usize) -> bool {
    source.raw[..at]
        .iter()
        .rev()
        .map(|line| line.trim())
        .take_while(|line| line.starts_with("///") || line.starts_with("#["))
        .any(|line| line.starts_with("/// # Safety") || line.starts_with("#[unsafe(no_mangle)]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        faults(&Source::new("src/a/b.rs", text)).len()
    }

    #[test]
    fn a_block_without_a_note_is_a_fault() {
        assert_eq!(count("let a = 1;\nlet x = unsafe { f() };\n"), 1);
        assert_eq!(count("let s = \"SAFETY\";\nunsafe { f() }\n"), 1);
        assert_eq!(
            count("// SAFETY: one.\n\nunsafe { f() }\n"),
            1,
            "not just above"
        );
        assert_eq!(
            count("// SAFETY: a.\nunsafe { f() };\nunsafe { g() };\n"),
            1
        );
        assert_eq!(count("unsafe impl Send for A {}\n"), 1);
        assert_eq!(count("let x = unsafe\n{ f() };\n"), 1);
    }

    #[test]
    fn a_note_may_stand_above_the_statement() {
        assert_eq!(
            count("// SAFETY: one line\n// and another.\nunsafe { f() };\n"),
            0
        );
        assert_eq!(count("// SAFETY: x.\nlet y =\n    unsafe { f() };\n"), 0);
        assert_eq!(
            count("// SAFETY: x.\n#[allow(a)]\nunsafe impl Sync for A {}\n"),
            0
        );
        assert_eq!(count("// an unsafe { is only a word here\n"), 0);
        assert_eq!(count("#![deny(unsafe_op_in_unsafe_fn)]\n"), 0);
    }

    #[test]
    fn a_public_unsafe_function_documents_safety() {
        assert_eq!(count("/// Does it.\npub unsafe fn f() {}\n"), 1);
        assert_eq!(count("pub unsafe extern \"C\" fn koloF(a: u8) {}\n"), 1);
        assert_eq!(
            count("/// Does it.\n///\n/// # Safety\n/// x.\npub unsafe fn f() {}\n"),
            0
        );
        assert_eq!(
            count("#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn koloF() {}\n"),
            0
        );
        assert_eq!(count("pub type F = unsafe extern \"C\" fn(u8);\n"), 0);
    }
}
