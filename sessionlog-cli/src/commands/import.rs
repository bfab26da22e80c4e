//! `sessionlog import`: conversations from elsewhere.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use sessionlog::{Format, StoreHandle, StoreOptions};

use crate::commands::migrate;
use crate::failure::{Failure, Outcome, Result};
use crate::output::{self, Output};
use crate::safe;
use crate::store::{Dir, Writing};

/// Bring conversations in from elsewhere
///
/// jsonl, openai and anthropic append the messages of a file, or of standard input (-), to the
/// session --to, all of them or none. kimi makes a new session of a context file of kimi-cli.
/// picoclaw takes a directory of PicoClaw's older manager, one JSON file per session: what is
/// imported is renamed there to *.json.migrated, and what a session had becomes a backup.
///
/// DIR is made if it is not there. It must not be in use by another process.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog import DIR messages.json -f openai --to telegram:123456
  sessionlog import DIR context.jsonl -f kimi --to cli:old
  sessionlog import DIR ~/.picoclaw/old-sessions -f picoclaw
  jq -c .messages[] dump.json | sessionlog import DIR - -f jsonl --to web:1

Exits with 1 if a file of PicoClaw's had to be left.")]
pub(crate) struct Import {
    #[command(flatten)]
    dir: Dir,
    /// The file, - for standard input, or PicoClaw's directory
    source: PathBuf,
    /// In which shape it is
    #[arg(short, long, value_enum)]
    format: Shape,
    /// The key of the session that it goes to
    #[arg(short, long, value_name = "KEY")]
    to: Option<String>,
    #[command(flatten)]
    writing: Writing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// Messages, one JSON object per line
    Jsonl,
    /// The messages of OpenAI's chat completions
    Openai,
    /// What Anthropic's messages API takes
    Anthropic,
    /// A context file of kimi-cli
    Kimi,
    /// A directory of PicoClaw's older manager
    Picoclaw,
}

impl Import {
    pub(crate) fn run(self) -> Result<Outcome> {
        // Nothing is made for a command that cannot be carried out.
        if self.format != Shape::Picoclaw {
            self.key()?;
        }
        let store = self.dir.create_with(self.writing, StoreOptions::new())?;
        let chats = store.handle();
        let format = match self.format {
            Shape::Jsonl => Format::Jsonl,
            Shape::Openai => Format::OpenAi,
            Shape::Anthropic => Format::Anthropic,
            Shape::Kimi => {
                self.kimi(&chats)?;
                store.close()?;
                return Ok(Outcome::Done);
            }
            Shape::Picoclaw => {
                let report = migrate::import(&self.source, &chats)?;
                store.close()?;
                return migrate::tell(&report);
            }
        };
        let messages = chats
            .import(self.key()?, format, &read(&self.source)?)
            .wait()?;
        store.close()?;
        say(&output::count(messages, "message"), self.key()?)?;
        Ok(Outcome::Done)
    }

    fn kimi(&self, chats: &StoreHandle) -> Result<()> {
        let report = sessionlog::import_kimi(&self.source, self.key()?, chats)?;
        say(&output::count(report.messages, "message"), self.key()?)?;
        if report.unread > 0 {
            output::warn(&format!(
                "{} of the file are no records",
                output::count(report.unread, "line")
            ));
        }
        Ok(())
    }

    fn key(&self) -> Result<&str> {
        let key = self.to.as_deref();
        key.ok_or_else(|| Failure::new("no session is named").hint("add --to KEY"))
    }
}

fn say(what: &str, key: &str) -> Result<()> {
    let mut out = Output::new();
    out.line(&format!("{what} imported to {}", safe::line(key)))?;
    out.finish()
}

fn read(source: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let read = if source == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(source).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map_err(|error| Failure::new(format!("read {}: {error}", source.display())))?;
    String::from_utf8(bytes).map_err(|_| Failure::new(format!("{} is not UTF-8", source.display())))
}
