//! `sessionlog completions` and `sessionlog man`: output for shells and for `man`.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::{Failure, Outcome, Result};
use crate::output::Output;

/// Print completions for a shell
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog completions bash > /etc/bash_completion.d/sessionlog
  sessionlog completions zsh > ~/.zfunc/_sessionlog
  sessionlog completions fish > ~/.config/fish/completions/sessionlog.fish")]
pub(crate) struct Completions {
    shell: Shell,
}

/// Print the manual page, or write one for each command
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog man | man -l -
  sessionlog man --out /usr/local/share/man/man1")]
pub(crate) struct Man {
    /// A directory, in which a page for each command is written; it is made if it is not there
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

impl Completions {
    pub(crate) fn run(self) -> Result<Outcome> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "sessionlog", &mut script);
        let mut out = Output::new();
        out.raw(&script)?;
        out.finish()?;
        Ok(Outcome::Done)
    }
}

impl Man {
    pub(crate) fn run(self) -> Result<Outcome> {
        if let Some(dir) = &self.out {
            let made = std::fs::create_dir_all(dir);
            let written = made.and_then(|()| clap_mangen::generate_to(Cli::command(), dir));
            written
                .map_err(|error| Failure::new(format!("write to {}: {error}", dir.display())))?;
            return Ok(Outcome::Done);
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        let mut out = Output::new();
        out.raw(&page)?;
        out.finish()?;
        Ok(Outcome::Done)
    }
}
