//! Section 3: a page for each call, with its names in C and in Fortran, and one for the types and
//! constants of a header.

use super::header::{CCall, CHeader, CType};
use super::page::{Leaf, Page, first_sentence};
use super::{arguments, fortran};

/// The pages of a header.
pub fn pages(header: &CHeader) -> Vec<Leaf> {
    let mut pages: Vec<Leaf> = header
        .calls
        .iter()
        .map(|call| file(&call.name, &of_call(header, call)))
        .collect();
    pages.push(file(&header.file, &of_header(header)));
    pages
}

fn file(name: &str, page: &Page) -> Leaf {
    (format!("man/man3/{name}.3"), page.render())
}

fn of_call(header: &CHeader, call: &CCall) -> Page {
    let procedure = fortran::of_call(call);
    let more = procedure.as_ref();
    let more = more.map_or_else(String::new, |one| format!(", {}", one.name));
    let mut page = Page::with_names(&call.name, &more, 3, &first_sentence(&call.doc));
    let include = format!("#include <{}>\n\n{}", header.file, call.lines);
    page.section("SYNOPSIS").lines(&include);
    if let Some(procedure) = &procedure {
        page.lines(&format!("use kolo\n\n{}", procedure.forms));
    }
    page.section("DESCRIPTION").text(&call.doc);
    let names = arguments::names(call);
    if !names.is_empty() {
        page.section("ARGUMENTS");
    }
    for name in &names {
        page.entry(name, arguments::meaning(call, name).unwrap_or_default());
    }
    if let Some(procedure) = &procedure {
        page.section("FORTRAN").text(procedure.doc);
        page.text(
            "Size and type come from the array, where no count stands in the call. Without \
             `ierror` a call that fails ends the job.",
        );
    }
    if call.lines.starts_with("koloResult_t") {
        page.section("RETURN VALUE").text(
            "A `koloResult_t`: `koloSuccess`, or another number of kolo.h(3); koloGetLastError(3) \
             then has a sentence that says what to do.",
        );
    }
    let mut also = Vec::new();
    let blocking = call.name.replacen("koloI", "kolo", 1);
    let has = |name: &str| name != call.name && header.calls.iter().any(|one| one.name == name);
    if has(&blocking) {
        also.push(format!("{blocking}(3)"));
        also.push("koloWait(3)".to_string());
    }
    also.extend(["kolo.h(3)", "kolo.toml(5)", "kolo(7)"].map(str::to_string));
    also.sort_by_key(|name| name.ends_with("(7)"));
    page.see_also(&also.iter().map(String::as_str).collect::<Vec<_>>());
    page
}

fn of_header(header: &CHeader) -> Page {
    let mut page = Page::new(&header.file, 3, "types, constants and calls of kolo in C");
    let include = format!("#include <{}>", header.file);
    page.section("SYNOPSIS").lines(&include);
    page.section("DESCRIPTION").text(&header.about);
    for (title, items) in [("TYPES", &header.types), ("CONSTANTS", &header.constants)] {
        if !items.is_empty() {
            page.section(title);
            items.iter().for_each(|item| add(&mut page, item));
        }
    }
    page.section("CALLS");
    for call in &header.calls {
        page.entry(&format!("{}(3)", call.name), &first_sentence(&call.doc));
    }
    page.see_also(&["kolo.toml(5)", "kolo(7)"]);
    page
}

fn add(page: &mut Page, item: &CType) {
    if item.members.is_empty() {
        page.entry(&item.name, &item.doc);
        return;
    }
    page.part(&item.name).text(&item.doc);
    for (name, doc) in &item.members {
        page.entry(name, doc);
    }
}
