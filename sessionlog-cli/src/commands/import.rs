//! `sessionlog import`: conversations from elsewhere.

mod kimi_code;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(not(feature = "sqlite"))]
mod sqlite {
    //! In the place of what reads databases.

    use std::path::Path;

    use sessionlog::Transcript;

    use crate::failure::{Failure, Result};

    pub(super) enum Database {}

    impl Database {
        pub(super) fn open(path: &Path) -> Result<Option<Self>> {
            let what = format!(
                "{}: a database of SQLite, which this build does not read",
                path.display()
            );
            let hint = "cargo install sessionlog-cli reads them; this was built without its \
                feature sqlite";
            Err(Failure::new(what).hint(hint))
        }

        pub(super) fn len(&self) -> usize {
            match *self {}
        }

        pub(super) fn sessions(
            &self,
            _: impl FnMut(std::result::Result<(Transcript, usize), String>) -> bool,
        ) {
            match *self {}
        }
    }
}
mod tree;

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use sessionlog::{Durability, Format, StoreHandle, StoreOptions, Transcript};

use crate::commands::migrate;
use crate::failure::{Failure, Outcome, Result};
use crate::output::{self, Output};
use crate::store::{Dir, Writing};
use crate::{names, safe};

/// Bring conversations in from elsewhere
///
/// The shape of a file is found out, unless --format names it, and said. Its messages, or those of
/// standard input (-), are appended to the session --to, all of a conversation or nothing of it;
/// without --to the session is named after the tool and its id of the conversation. What is not
/// known is refused, with its line. Sessions are dated by their messages.
///
/// Of a directory every *.json and *.jsonl file in it and below is imported, each to a session of
/// its own; --to is the beginning of their keys then. Sessions that have messages are left as they
/// are, so that it can be run again.
///
/// So is every session of a database of SQLite in which OpenAI's Agents SDK keeps them
/// (SQLiteSession, AdvancedSQLiteSession): of a file that is one, and of those in a directory that
/// end in .db, .sqlite or .sqlite3. Branches become sessions of their own. The database is only
/// read, and may be in use; SQLite may leave an empty -wal and a -shm beside it. Outside of WAL mode
/// a temporary copy is read.
#[cfg_attr(
    not(feature = "sqlite"),
    doc = "This build reads no databases: it was made without its feature sqlite."
)]
///
/// Kimi Code's title and pictures stand beside its wire.jsonl: import that where it is, or the
/// directory of its session. Each of its agents is a session of its own.
///
/// kimi makes a new session of a context file of kimi-cli. picoclaw takes a directory of
/// PicoClaw's older manager, one JSON file per session: what is imported is renamed there to
/// *.json.migrated, and what a session had becomes a backup. Its files say which sessions they are,
/// so --to does not go with it.
///
/// DIR is made if it is not there. It must not be in use by another process.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog import DIR ~/.claude/projects
  sessionlog import DIR ~/.codex/sessions --to codex
  sessionlog import DIR ~/.kimi-code/sessions
  sessionlog import DIR conversations.db --to agents
  sessionlog import DIR messages.json --to telegram:123456
  sessionlog import DIR context.jsonl --format kimi --to cli:old
  sessionlog import DIR ~/.picoclaw/old-sessions --format picoclaw
  jq -c .messages[] dump.json | sessionlog import DIR - --format jsonl --to web:1

Exits with 1 if a file had to be left.")]
pub(crate) struct Import {
    #[command(flatten)]
    dir: Dir,
    /// The file, - for standard input, or a directory
    source: PathBuf,
    /// In which shape it is, where that is not to be found out
    #[arg(long, value_enum)]
    format: Option<Shape>,
    /// The key of the session that it goes to; for a directory, the beginning of the keys
    #[arg(long, value_name = "KEY")]
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
    /// The items of OpenAI's responses or its Agents SDK, also a database of the latter
    Responses,
    /// What Anthropic's messages API takes
    Anthropic,
    /// The request body of Google's Gemini
    Gemini,
    /// A session of Claude Code
    ClaudeCode,
    /// A session of Codex
    Codex,
    /// A session of Gemini CLI
    GeminiCli,
    /// Messages of `LangChain`
    Langchain,
    /// A session of `OpenClaw`
    Openclaw,
    /// A context file of kimi-cli
    Kimi,
    /// A session of Kimi Code: the wire.jsonl of an agent
    KimiCode,
    /// A directory of PicoClaw's older manager
    Picoclaw,
}

impl From<Shape> for Format {
    fn from(shape: Shape) -> Self {
        match shape {
            Shape::Jsonl => Self::Jsonl,
            Shape::Openai => Self::OpenAi,
            Shape::Responses => Self::OpenAiResponses,
            Shape::Anthropic => Self::Anthropic,
            Shape::Gemini => Self::Gemini,
            Shape::ClaudeCode => Self::ClaudeCode,
            Shape::Codex => Self::Codex,
            Shape::GeminiCli => Self::GeminiCli,
            Shape::Langchain => Self::LangChain,
            Shape::Openclaw => Self::OpenClaw,
            Shape::Kimi => Self::KimiCli,
            Shape::KimiCode => Self::KimiCode,
            Shape::Picoclaw => Self::Picoclaw,
        }
    }
}

/// The most bytes of one conversation: all that one command may write.
const LONGEST: usize = 1 << 30;

/// Returns the name of a shape for people, and the beginning of the keys of its sessions.
fn named(format: Format) -> (&'static str, &'static str) {
    match format {
        Format::OpenAi => ("OpenAI chat", "openai"),
        Format::OpenAiResponses => ("OpenAI Responses", "responses"),
        Format::Anthropic => ("Anthropic", "anthropic"),
        Format::Gemini => ("Gemini", "gemini"),
        Format::ClaudeCode => ("Claude Code", "claude-code"),
        Format::Codex => ("Codex", "codex"),
        Format::GeminiCli => ("Gemini CLI", "gemini-cli"),
        Format::KimiCli => ("kimi-cli", "kimi"),
        Format::KimiCode => ("Kimi Code", "kimi-code"),
        Format::LangChain => ("LangChain", "langchain"),
        Format::OpenClaw => ("OpenClaw", "openclaw"),
        Format::Picoclaw => ("PicoClaw's older manager", "picoclaw"),
        _ => ("JSON lines", "jsonl"),
    }
}

impl Import {
    pub(crate) fn run(self) -> Result<Outcome> {
        let is_tree = self.source.is_dir();
        // Nothing is made for a command that cannot be carried out.
        if self.format == Some(Shape::Picoclaw) && (is_tree || !self.source.exists()) {
            if self.to.is_some() {
                let what = "these files say which sessions they are; --to does not go with them";
                return Err(Failure::new(what).hint(
                    "without --format picoclaw, the sessions of a directory get keys that begin \
                     with --to, and its files stay as they are",
                ));
            }
            let store = self.dir.create_or_older(self.writing)?;
            let report = migrate::import(&self.source, &store.handle())?;
            let told = migrate::told(&report);
            store.close()?;
            output::lines(&told)?;
            return Ok(Outcome::found(report.skipped.is_empty()));
        }
        let format = self.format.map(Format::from);
        // No other writer waits behind a long conversation. All is on disk once the store is
        // closed, and nothing is told before.
        let options = StoreOptions::new()
            .max_batch_bytes(LONGEST)
            .durability(Durability::Buffered);
        let is_database = !is_tree && is_database(&self.source)?;
        if is_tree || is_database {
            let database = is_database
                .then(|| the_database(&self.source, format))
                .transpose()?;
            let store = self.dir.create_with(self.writing, options)?;
            let to = self.to.as_deref();
            let imported = match database {
                Some(database) => {
                    let chats = store.handle();
                    Ok(tree::import_database(&self.source, &database, to, &chats))
                }
                None => tree::import(&self.source, to, format, &store.handle()),
            };
            store.close()?;
            return imported?.tell();
        }
        let found = read(&self.source, format)?;
        let key = self.key(&found)?;
        let store = self.dir.create_with(self.writing, options)?;
        let chats = store.handle();
        let (mut messages, mut taken, mut refused) = (0, Vec::new(), None);
        for (key, transcript) in found.conversations(&key) {
            match take_in(&self.source, transcript, &key, &chats) {
                Ok(many) => messages += many,
                Err(error) => {
                    refused = Some((key, error));
                    break;
                }
            }
            taken.push(key);
        }
        // An alias leads to another key.
        let own = chats.resolve_session_key(&key).wait();
        let name = own.map(|own| names::name(&own.unwrap_or(key)));
        store.close()?;
        if let Some((key, error)) = refused {
            if taken.is_empty() {
                return Err(error.into());
            }
            return Err(Failure::new(format!("{key}: {error}")).hint(format!(
                "imported before it, and not to be imported again: {}",
                taken.join(", ")
            )));
        }
        let name = name?;
        let of = match format {
            Some(_) => String::new(),
            None => format!(" of {}", named(found.transcript.format).0),
        };
        let mut out = Output::new();
        let count = output::count(messages, "message");
        out.line(&format!("{count}{of} imported to {name}"))?;
        out.finish()?;
        for what in found.remarks() {
            output::warn(&what);
        }
        Ok(Outcome::Done)
    }

    /// Returns the key of the session that a file goes to.
    fn key(&self, found: &Found) -> Result<String> {
        let own = || key_of(&found.transcript);
        let key = self.to.clone().or_else(own);
        key.ok_or_else(|| Failure::new("no session is named").hint("add --to KEY"))
    }
}

/// Returns the key that a conversation has by itself.
fn key_of(transcript: &Transcript) -> Option<String> {
    let id = transcript.id.as_ref()?;
    if transcript.format == Format::Picoclaw {
        return Some(id.clone());
    }
    Some(format!("{}:{id}", named(transcript.format).1))
}

/// A file that was read.
struct Found {
    transcript: Transcript,
    /// Bytes that were no UTF-8, as U+FFFD.
    replaced: usize,
}

impl Found {
    /// Returns its conversations, each with the key of its session; the first one goes to `key`.
    fn conversations(&self, key: &str) -> Vec<(String, &Transcript)> {
        let kind = match self.transcript.format {
            Format::OpenAiResponses => "branch",
            _ => "agent",
        };
        let branches = self.transcript.branches.iter().map(|branch| {
            let id = branch.id.as_deref().unwrap_or_default();
            (format!("{key}:{kind}:{id}"), branch)
        });
        let first = std::iter::once((key.to_owned(), &self.transcript));
        first.chain(branches).collect()
    }

    /// Returns remarks on all content that differs in the messages.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let skipped = self.transcript.skipped.iter();
        remarks.extend(
            skipped.map(|(what, many)| format!("left out, {many} times: {}", safe::line(what))),
        );
        let replaced = self.replaced + self.transcript.replaced;
        if replaced > 0 {
            let what = output::count(replaced, "damaged character");
            remarks.push(format!("{what} became U+FFFD"));
        }
        remarks
    }
}

/// Imports a conversation of a file; returns the number of its messages.
fn take_in(
    source: &Path,
    transcript: &Transcript,
    key: &str,
    chats: &StoreHandle,
) -> sessionlog::Result<usize> {
    if transcript.format == Format::KimiCli && source != Path::new("-") {
        let report = sessionlog::import_kimi(source, key, chats)?;
        if report.unread > 0 {
            output::warn(&format!(
                "{} of the file are no records",
                output::count(report.unread, "line")
            ));
        }
        return Ok(report.messages);
    }
    chats.import_transcript(key, transcript.clone()).wait()?;
    Ok(transcript.messages.len())
}

fn read(source: &Path, format: Option<Format>) -> Result<Found> {
    let mut bytes = Vec::new();
    let read = if source == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(source).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map_err(|error| Failure::new(format!("read {}: {error}", source.display())))?;
    let (text, replaced) = mended(bytes);
    let mut transcript = Transcript::read(&text, format)?;
    if transcript.format == Format::KimiCode
        && let Some(whole) = kimi_code::with_pictures(&text, source)?
    {
        transcript = Transcript::read(&whole, Some(Format::KimiCode))?;
    }
    kimi_code::complete(&mut transcript, source);
    Ok(Found {
        transcript,
        replaced,
    })
}

/// The text of bytes, and how many of its characters stand for what was no UTF-8.
fn mended(bytes: Vec<u8>) -> (String, usize) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, 0),
        Err(error) => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let replaced = text.matches('\u{fffd}').count();
            (text, replaced)
        }
    }
}

/// Returns true if a file begins as databases of SQLite do.
fn is_database(path: &Path) -> Result<bool> {
    const BEGINNING: &[u8] = b"SQLite format 3\0";
    if !path.is_file() {
        return Ok(false);
    }
    let mut begins = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(BEGINNING.len() as u64).read_to_end(&mut begins))
        .map_err(|error| Failure::new(format!("read {}: {error}", path.display())))?;
    Ok(begins == BEGINNING)
}

/// Opens a database; `None`, if it has nothing to import.
fn open_database(path: &Path, format: Option<Format>) -> Result<Option<sqlite::Database>> {
    let database = sqlite::Database::open(path)?;
    if database.is_some() && !matches!(format, None | Some(Format::OpenAiResponses)) {
        let what = format!("{}: a database of SQLite", path.display());
        return Err(Failure::new(what).hint("leave --format out, or name responses"));
    }
    Ok(database)
}

/// The same, where it must have something.
fn the_database(path: &Path, format: Option<Format>) -> Result<sqlite::Database> {
    open_database(path, format)?.ok_or_else(|| {
        Failure::new(format!(
            "{}: a database of SQLite without sessions of OpenAI's Agents SDK: no table has the \
             columns id, session_id and message_data",
            path.display()
        ))
    })
}
