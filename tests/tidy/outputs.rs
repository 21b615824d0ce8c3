//! A C program of several ranks writes each of its lines in one piece: MPICH takes the buffer from
//! the standard output, so that `puts` writes the end of a line apart from it, and the lines of two
//! ranks may meet. Compilers put `puts` in the place of a `printf` without values, too.

use crate::source::Source;

/// Folders whose C programs mpirun starts.
const FOLDERS: &[&str] = &["tests/mpi/", "tests/cluster/"];

/// Whether a compiler writes this call's line in two pieces.
fn is_in_pieces(line: &str) -> bool {
    let code = line.trim_start();
    let is_puts = code
        .match_indices("puts(")
        .any(|(at, _)| !code[..at].ends_with(|before: char| before.is_alphanumeric()));
    let constant = |at: usize| {
        let format = &code[at + "printf(\"".len()..];
        let end = format.find('"').unwrap_or(format.len());
        let (format, rest) = format.split_at(end);
        format == "%s\\n" || !format.contains('%') && format.ends_with("\\n") && rest == "\");"
    };
    let is_constant = code.match_indices("printf(\"").any(|(at, _)| {
        !code[..at].ends_with(|before: char| before.is_alphanumeric()) && constant(at)
    });
    is_puts || is_constant
}

pub fn faults(source: &Source) -> Vec<String> {
    let path = &source.path;
    if !path.ends_with(".c") || !FOLDERS.iter().any(|folder| path.starts_with(folder)) {
        return Vec::new();
    }
    let lines = source.raw.iter().enumerate();
    let found = lines.filter(|(_, line)| is_in_pieces(line));
    let fault = "the end of the line is written apart: fputs(\"...\\n\", stdout) writes it whole";
    found.map(|(i, _)| source.fault(i, fault)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_may_meet_those_of_other_ranks_are_caught() {
        let count = |path: &str, text: &str| faults(&Source::new(path, text)).len();
        for (text, faults) in [
            ("puts(\"right\");", 1),
            ("if (rank == 0) printf(\"right\\n\");", 1),
            ("return puts(why()), 1;", 1),
            ("printf(\"%s\\n\", why());", 1),
            ("fputs(\"right\\n\", stdout);", 0),
            ("printf(\"rank %d\\n\", rank);", 0),
            ("fprintf(stderr, \"%s\\n\", why());", 0),
            ("printf(\"more to come\");", 0),
        ] {
            assert_eq!(count("tests/mpi/a.c", text), faults, "{text}");
            assert_eq!(count("tests/cluster/a.c", text), faults, "{text}");
            assert_eq!(count("tests/abi/a.c", text), 0, "{text}");
        }
    }
}
