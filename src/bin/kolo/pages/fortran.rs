//! The procedures of Fortran beside the calls of C that they are: in the page of the call, which is
//! found by the name of the procedure as well.

use super::header::{CCall, CHeader};
use super::page::{Leaf, Page, first_sentence};

/// The list of all procedures, made of the module's source.
const PROCEDURES: &str = include_str!("../../../../docs/fortran-procedures.md");
/// Which call has which name in Fortran: rows `{"AllReduce", "kolo_allreduce", CALL},`.
const WORDS: &str = include_str!("../../../../bindings/fortran/kolo_fortran_words.c");

/// A procedure of module kolo.
pub struct Procedure {
    /// Its name.
    pub name: &'static str,
    /// Its forms, a line each.
    pub forms: &'static str,
    /// Its comment.
    pub doc: &'static str,
}

/// All procedures, in their order.
pub fn procedures() -> impl Iterator<Item = Procedure> {
    PROCEDURES.split("\n## `").skip(1).filter_map(|part| {
        let (name, rest) = part.split_once("`\n")?;
        let (_, rest) = rest.split_once("```fortran\n")?;
        let (forms, doc) = rest.split_once("```\n")?;
        Some(Procedure {
            name,
            forms,
            doc: doc.trim(),
        })
    })
}

/// Calls and their names in Fortran, in the order of the table.
fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    WORDS.lines().filter_map(|line| {
        let row = line
            .trim()
            .strip_prefix("{\"")?
            .strip_suffix("\", CALL},")?;
        row.split_once("\", \"")
    })
}

/// The procedure that a call is.
pub fn of_call(call: &CCall) -> Option<Procedure> {
    let theirs = call.name.trim_start_matches("kolo");
    let (_, ours) = rows().find(|(name, _)| *name == theirs)?;
    procedures().find(|procedure| procedure.name == ours)
}

/// The call whose page a procedure has: the one with its name, or the first of the table.
fn call_of<'a>(procedure: &Procedure, headers: &'a [CHeader]) -> Option<&'a CCall> {
    let calls = || headers.iter().flat_map(|header| &header.calls);
    let alike = procedure.name.replace('_', "");
    let same = calls().find(|call| call.name.eq_ignore_ascii_case(&alike));
    same.or_else(|| {
        let mut rows = rows().filter(|(_, ours)| *ours == procedure.name);
        rows.find_map(|(theirs, _)| calls().find(|call| call.name[4..] == *theirs))
    })
}

/// A page for each procedure: that of its call, or one of its own where no call is it.
pub fn pages(headers: &[CHeader]) -> Vec<Leaf> {
    let page = |procedure: Procedure| {
        let text = match call_of(&procedure, headers) {
            Some(call) => format!(".so man3/{}.3\n", call.name),
            None => own(&procedure).render(),
        };
        (format!("man/man3/{}.3", procedure.name), text)
    };
    procedures().map(page).collect()
}

fn own(procedure: &Procedure) -> Page {
    let mut page = Page::new(procedure.name, 3, &first_sentence(procedure.doc));
    page.section("SYNOPSIS")
        .lines(&format!("use kolo\n\n{}", procedure.forms));
    page.section("DESCRIPTION").text(procedure.doc);
    page.see_also(&["kolo.h(3)", "kolo.toml(5)", "kolo(7)"]);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers() -> [CHeader; 2] {
        let kolo_h = include_str!("../../../../bindings/c/include/kolo.h");
        let kolo_mpi_h = include_str!("../../../../bindings/mpi/kolo_mpi.h");
        [
            CHeader::parse("kolo.h", kolo_h),
            CHeader::parse("kolo_mpi.h", kolo_mpi_h),
        ]
    }

    #[test]
    fn every_procedure_leads_to_a_page_that_names_it() {
        let headers = headers();
        let calls: Vec<Leaf> = headers
            .iter()
            .flat_map(super::super::calls::pages)
            .collect();
        let pages = pages(&headers);
        let listed = PROCEDURES.lines().filter(|line| line.starts_with("## `"));
        assert_eq!(pages.len(), listed.count());
        let mut own = Vec::new();
        for (procedure, (file, text)) in procedures().zip(&pages) {
            assert_eq!(*file, format!("man/man3/{}.3", procedure.name));
            let target = text
                .strip_prefix(".so ")
                .map(|rest| format!("man/{}", rest.trim()));
            let shown = match &target {
                Some(target) => &calls.iter().find(|(file, _)| file == target).unwrap().1,
                None => text,
            };
            if target.is_none() {
                own.push(procedure.name);
            }
            // In NAME, where `man -k` looks, and with its forms.
            let mut lines = shown
                .lines()
                .skip_while(|line| !line.starts_with(".SH NAME"));
            let title = lines.nth(1).unwrap().replace('\\', "");
            assert!(title.contains(&format!("{} - ", procedure.name)), "{title}");
            for form in procedure.forms.lines() {
                assert!(shown.replace('\\', "").contains(form), "{form}\n{shown}");
            }
        }
        // Everything else is a call of C, too.
        assert_eq!(own, ["kolo_comm_is_null"]);
    }

    #[test]
    fn a_call_of_two_names_has_the_page_of_its_own_name() {
        let pages = pages(&headers());
        let leads = |name: &str| {
            let file = format!("man/man3/{name}.3");
            &pages.iter().find(|(known, _)| *known == file).unwrap().1
        };
        assert_eq!(leads("kolo_allreduce"), ".so man3/koloAllReduce.3\n");
        assert_eq!(leads("kolo_bcast"), ".so man3/koloBcast.3\n");
        assert_eq!(leads("kolo_comm_init"), ".so man3/koloCommInitMPI.3\n");
    }
}
