//! The command line.

use clap::{Parser, Subcommand};

use crate::commands;
use crate::failure::{Outcome, Result};

const ABOUT: &str = "Look into, search, check and look after a store of chat sessions";

const LONG: &str = "\
Looks into, searches, checks and looks after a store of chat sessions: a directory in which \
a bot gateway that uses the library sessionlog, or PicoClaw, keeps one file per chat.

DIR is that directory. A SESSION is named by its key, one of its aliases, or the beginning of \
either, if no other begins so.

Commands that only read (ls, show, tail, search, stat, top, serve, verify, export, backup, \
archive, copy from DIR, and retention without --apply) take no lock, write nothing in DIR and \
work beside a running gateway. The others need DIR to themselves, and say which process \
has it if they cannot have it.";

const AFTER: &str = "\
Where to begin:
  yesterday's chat with one person  sessionlog ls DIR --since yesterday --person 123456
  read it, follow it live           sessionlog show DIR SESSION; sessionlog tail -f DIR SESSION
  what was said of something        sessionlog search DIR invoice
  why writes are slow               sessionlog top DIR; sessionlog bench DIR
  is everything sound?              sessionlog verify DIR
  mend a damaged copy               sessionlog repair COPY
  back up while the gateway runs    sessionlog backup DIR BACKUP
  restore a backup                  sessionlog restore BACKUP DIR
  look at it in a browser           sessionlog serve DIR
  a chat's id changed               sessionlog rename DIR OLD NEW
  change one message                sessionlog show DIR KEY --numbers; sessionlog edit DIR KEY 12 TEXT
  delete a chat, and bring it back  sessionlog delete DIR KEY; sessionlog undelete DIR KEY
  forget a person                   sessionlog erase DIR --person 123456

Exit codes:
  0  done, or found
  1  nothing was found, or damage was, or something is left to be looked at
  2  it could not be done, or the command line is wrong

Colours are for terminals only; NO_COLOR and --color switch them off. What people wrote is \
shown with control characters written out (\\x1b), except as JSON, which escapes them itself.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "sessionlog",
    version,
    about = ABOUT,
    long_about = LONG,
    after_help = AFTER,
    max_term_width = 100,
    propagate_version = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) colour: colorchoice_clap::Color,
    /// Say more of what the library does; twice and three times for more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Say nothing but results and errors: no remarks, warnings and progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ls(commands::ls::Ls),
    Show(commands::show::Show),
    Tail(commands::tail::Tail),
    Search(commands::search::Search),
    Stat(commands::stat::Stat),
    Top(commands::top::Top),
    Export(commands::export::Export),
    Import(commands::import::Import),
    Verify(commands::verify::Verify),
    Repair(commands::repair::Repair),
    Backup(commands::backup::Backup),
    Restore(commands::restore::Restore),
    #[cfg(feature = "postgres")]
    Copy(commands::copy::Copy),
    /// Copy sessions to a database, or back (not in this build)
    #[cfg(not(feature = "postgres"))]
    Copy(commands::absent::Absent),
    #[cfg(feature = "serve")]
    Serve(commands::serve::Serve),
    /// Show the store in a browser (not in this build)
    #[cfg(not(feature = "serve"))]
    Serve(commands::absent::Absent),
    Title(commands::tag::Title),
    Label(commands::tag::Label),
    Edit(commands::edit::Edit),
    Remove(commands::edit::Remove),
    Rename(commands::rename::Rename),
    Delete(commands::delete::Delete),
    Undelete(commands::delete::Undelete),
    Compact(commands::compact::Compact),
    #[command(subcommand)]
    Archive(commands::archive::Archive),
    Retention(commands::retention::Retention),
    Erase(commands::erase::Erase),
    Migrate(commands::migrate::Migrate),
    Handover(commands::handover::Handover),
    Bench(commands::bench::Bench),
    Completions(commands::completions::Completions),
    Man(commands::completions::Man),
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<Outcome> {
        match self {
            Self::Ls(command) => command.run(),
            Self::Show(command) => command.run(),
            Self::Tail(command) => command.run(),
            Self::Search(command) => command.run(),
            Self::Stat(command) => command.run(),
            Self::Top(command) => command.run(),
            Self::Export(command) => command.run(),
            Self::Import(command) => command.run(),
            Self::Verify(command) => command.run(),
            Self::Repair(command) => command.run(),
            Self::Backup(command) => command.run(),
            Self::Restore(command) => command.run(),
            #[cfg(feature = "postgres")]
            Self::Copy(command) => command.run(),
            #[cfg(not(feature = "postgres"))]
            Self::Copy(_) => commands::absent::refuse("copy"),
            #[cfg(feature = "serve")]
            Self::Serve(command) => command.run(),
            #[cfg(not(feature = "serve"))]
            Self::Serve(_) => commands::absent::refuse("serve"),
            Self::Title(command) => command.run(),
            Self::Label(command) => command.run(),
            Self::Edit(command) => command.run(),
            Self::Remove(command) => command.run(),
            Self::Rename(command) => command.run(),
            Self::Delete(command) => command.run(),
            Self::Undelete(command) => command.run(),
            Self::Compact(command) => command.run(),
            Self::Archive(command) => command.run(),
            Self::Retention(command) => command.run(),
            Self::Erase(command) => command.run(),
            Self::Migrate(command) => command.run(),
            Self::Handover(command) => command.run(),
            Self::Bench(command) => command.run(),
            Self::Completions(command) => command.run(),
            Self::Man(command) => command.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use clap::CommandFactory;

    use super::Cli;

    /// Visits a command, and those below it.
    fn each(command: &clap::Command, visit: &mut dyn FnMut(&clap::Command)) {
        visit(command);
        for below in command.get_subcommands() {
            each(below, visit);
        }
    }

    #[test]
    fn a_letter_stands_for_the_same_option_in_every_command() {
        let mut options: BTreeMap<char, BTreeSet<String>> = BTreeMap::new();
        each(&Cli::command(), &mut |command| {
            for option in command.get_arguments() {
                let name = option.get_long().unwrap_or(option.get_id().as_str());
                let letters = option.get_short_and_visible_aliases();
                for letter in letters.into_iter().flatten() {
                    options.entry(letter).or_default().insert(name.to_owned());
                }
            }
        });
        assert!(options.contains_key(&'n'), "{options:?}");
        options.retain(|_, names| names.len() > 1);
        assert_eq!(options, BTreeMap::new());
    }

    #[test]
    #[cfg(all(feature = "postgres", feature = "serve"))]
    fn the_page_for_scripts_has_every_command_and_knows_which_have_json() {
        let page = include_str!("scripts.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let rows: BTreeMap<&str, bool> = rows
            .filter_map(|row| {
                let (name, row) = row.split_once("` | ")?;
                Some((name, !row.starts_with("none")))
            })
            .collect();
        let has_json = |command: &clap::Command| {
            let of =
                |command: &clap::Command| command.get_arguments().any(|arg| arg.get_id() == "json");
            of(command) || command.get_subcommands().any(of)
        };
        let cli = Cli::command();
        let commands = cli.get_subcommands();
        let commands: BTreeMap<&str, bool> = commands
            .map(|command| (command.get_name(), has_json(command)))
            .collect();
        assert_eq!(rows, commands);
    }
}
