//! Section 1: `kolo` and each of its commands; and what shells complete.

use super::page::{DATE, Leaf, Page, source};
use clap::Command;
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use kolo::base::{Error, Result};

/// The commands that people are told of.
pub fn told(commands: &Command) -> impl Iterator<Item = &Command> {
    commands.get_subcommands().filter(|one| !one.is_hide_set())
}

/// A page for the program, and one for each of its commands.
///
/// # Errors
/// None that can be expected: the pages are written to memory.
pub fn pages(commands: &Command) -> Result<Vec<Leaf>> {
    let commands = ready(commands);
    let mut pages = vec![of_program(&commands)];
    for one in told(&commands) {
        let name = format!("kolo-{}", one.get_name());
        let text = of_command(&name, one.clone()).map_err(|error| {
            let doing = format!("the page {name} cannot be made");
            Error::system(doing, &error, "report this")
        })?;
        pages.push((format!("man/man1/{name}.1"), text));
    }
    Ok(pages)
}

/// With what the parser adds by itself, such as `--help`.
fn ready(commands: &Command) -> Command {
    let mut commands = commands.clone();
    commands.build();
    commands
}

fn of_program(commands: &Command) -> Leaf {
    let about = commands.get_about().map(ToString::to_string);
    let about = about.unwrap_or_default();
    let mut page = Page::new("kolo", 1, about.trim_start_matches("kolo: "));
    page.section("SYNOPSIS").text("`kolo` COMMAND [OPTIONS]");
    page.section("DESCRIPTION").text(
        "The one program of kolo: it measures collective calls, explains which algorithm runs and \
         why, shows the machine as kolo sees it, and tells what is set and from where. It is \
         linked to no MPI; started by `mpirun` or `srun` it loads the library of that MPI.",
    );
    page.section("COMMANDS");
    for one in told(commands) {
        let about = one.get_about().map(ToString::to_string);
        let name = format!("kolo-{}(1)", one.get_name());
        page.entry(&name, &about.unwrap_or_default());
    }
    page.section("EXIT STATUS").text(
        "0: done, and every result right. 1: an error, or a wrong result. 2: a mistake in the \
         options.",
    );
    page.see_also(&["kolo.h(3)", "kolo.toml(5)", "kolo(7)"]);
    ("man/man1/kolo.1".to_string(), page.render())
}

fn of_command(name: &str, command: Command) -> std::io::Result<String> {
    let help = command.get_after_help().map(ToString::to_string);
    let parts: Vec<Command> = told(&command).cloned().collect();
    let man = Man::new(command.display_name(name.to_string()))
        .title(name.to_uppercase())
        .section("1")
        .date(DATE)
        .source(source())
        .manual("kolo manual");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    let mut rest = Page::empty();
    if !parts.is_empty() {
        rest.section("COMMANDS");
    }
    for mut part in parts {
        let usage = part.render_usage().to_string();
        let about = part.get_about().map(ToString::to_string);
        rest.entry(
            usage.trim_start_matches("Usage: "),
            &about.unwrap_or_default(),
        );
    }
    if let Some(help) = help {
        // Examples and tables are in lines that were broken by hand.
        rest.section("NOTES").lines(&help);
    }
    rest.see_also(&["kolo(1)", "kolo.toml(5)", "kolo(7)"]);
    text.extend(rest.render().into_bytes());
    // Where words of an option are listed, two breaks and an empty line stand for one break.
    Ok(String::from_utf8_lossy(&text).replace(".br\n\n.br\n", ".br\n"))
}

/// Files of completions that shells read, under the names by which they look for them.
pub fn completions(commands: &Command) -> Vec<Leaf> {
    let shells = [
        (Shell::Bash, "bash-completion/completions/kolo"),
        (Shell::Zsh, "zsh/site-functions/_kolo"),
        (Shell::Fish, "fish/vendor_completions.d/kolo.fish"),
    ];
    let one = |(shell, place): (Shell, &str)| {
        let mut text = Vec::new();
        generate(shell, &mut commands.clone(), "kolo", &mut text);
        (
            place.to_string(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    };
    shells.map(one).to_vec()
}
