//! `sessionlog export`: a conversation in another tool's shape.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use sessionlog::{ExportOptions, Format, Opening, PicoclawExport, StoreHandle, Unpaired};

use crate::failure::{Failure, Outcome, Result};
use crate::output::{self, Output};
use crate::store::Dir;
use crate::{names, progress, resolve, safe};

/// Write conversations in another shape
///
/// jsonl, markdown, openai, responses, anthropic and gemini write one session to standard
/// output, or to a new file; what could not go is told on standard error. kimi writes one session to a new file that kimi-cli reads. picoclaw writes a new
/// directory that PicoClaw's store reads, of all sessions or of some, and says what it had to
/// leave out.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog export DIR telegram:123456 --format markdown > chat.md
  sessionlog export DIR telegram:123456 --format openai -o messages.json
  sessionlog export DIR telegram:123456 --format kimi -o context.jsonl
  sessionlog export DIR --format picoclaw -o /srv/picoclaw/sessions

Exits with 1 if a session could not go, or has no messages.")]
pub(crate) struct Export {
    #[command(flatten)]
    dir: Dir,
    /// Sessions: keys, aliases, or the beginnings of either
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// In which shape
    #[arg(long, value_enum, default_value_t = Shape::Jsonl)]
    format: Shape,
    /// Where to; what is there already is not written over
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// For a model: leave out what comes before the user's first message, where a placeholder
    /// would stand before it
    #[arg(long)]
    user_first: bool,
    /// For a model: give a tool call without its result one that says so, where it would be
    /// left out
    #[arg(long)]
    answer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// The session's lines as they are
    Jsonl,
    /// A transcript for people
    Markdown,
    /// The messages of OpenAI's chat completions
    Openai,
    /// The input of OpenAI's responses
    Responses,
    /// What Anthropic's messages API takes
    Anthropic,
    /// The request body of Google's Gemini
    Gemini,
    /// A context file of kimi-cli
    Kimi,
    /// A directory of PicoClaw's store
    Picoclaw,
}

impl Export {
    pub(crate) fn run(self) -> Result<Outcome> {
        let store = self.dir.read()?;
        let chats = &store.chats;
        let format = match self.format {
            Shape::Jsonl => Format::Jsonl,
            Shape::Markdown => Format::Markdown,
            Shape::Openai => Format::OpenAi,
            Shape::Responses => Format::OpenAiResponses,
            Shape::Anthropic => Format::Anthropic,
            Shape::Gemini => Format::Gemini,
            Shape::Kimi => return self.kimi(chats),
            Shape::Picoclaw => return self.picoclaw(chats),
        };
        let key = self.one(chats)?;
        let export = chats.export(&key, self.options(format)).wait()?;
        for (what, count) in export.summary() {
            output::warn(&match count {
                1 => format!("left out: {}", safe::line(what)),
                _ => format!("left out, {count} times: {}", safe::line(what)),
            });
        }
        let text = export.text;
        let is_any = !chats.tail(&key, 1).wait()?.is_empty();
        match &self.output {
            Some(path) => write_new(path, &text)?,
            None => print(&text)?,
        }
        Ok(Outcome::found(is_any))
    }

    fn options(&self, format: Format) -> ExportOptions {
        let options = ExportOptions::new(format);
        let options = if self.user_first {
            options.opening(Opening::User)
        } else {
            options
        };
        if self.answer {
            options.unpaired(Unpaired::Answer)
        } else {
            options
        }
    }

    fn kimi(&self, chats: &StoreHandle) -> Result<Outcome> {
        let key = self.one(chats)?;
        let export = sessionlog::export_kimi_report(&key, self.place("FILE")?, chats)?;
        for what in &export.left_out {
            output::warn(&format!("left out: {what}"));
        }
        Ok(Outcome::Done)
    }

    fn picoclaw(&self, chats: &StoreHandle) -> Result<Outcome> {
        let place = self.place("DIRECTORY")?;
        let keys = self
            .sessions
            .iter()
            .map(|name| resolve::session(chats, name));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let report = progress::while_reading(self.dir.path(), "exporting", || {
            if keys.is_empty() {
                sessionlog::export_picoclaw(place, chats)
            } else {
                sessionlog::export_picoclaw_sessions(place, chats, &keys)
            }
        })?;
        tell(&report)?;
        Ok(Outcome::found(report.not_exported.is_empty()))
    }

    fn one(&self, chats: &StoreHandle) -> Result<String> {
        match &*self.sessions {
            [name] => resolve::session(chats, name),
            [] => Err(Failure::new("no session is named")
                .hint("name one; only --format picoclaw writes all")),
            _ => Err(Failure::new("several sessions are named")
                .hint("name one; only --format picoclaw writes several")),
        }
    }

    fn place(&self, what: &str) -> Result<&Path> {
        self.output.as_deref().ok_or_else(|| {
            Failure::new("this shape cannot go to standard output").hint(format!("add -o {what}"))
        })
    }
}

/// Reports the exported sessions, and those that were not.
fn tell(report: &PicoclawExport) -> Result<()> {
    let mut out = Output::new();
    let sessions = output::count(report.sessions, "session");
    out.line(&format!(
        "{sessions}, {}",
        output::count(report.messages, "message")
    ))?;
    for (key, what) in &report.left_out {
        out.line(&format!(
            "{}: left out {}",
            names::name(key),
            safe::line(what)
        ))?;
    }
    for (key, why) in &report.not_exported {
        let line = format!("{}: not exported: {}", names::name(key), safe::line(why));
        out.line(&out.paint(output::BAD, &line))?;
    }
    out.finish()
}

/// Prints the bytes unchanged, unless a terminal would take them for orders.
fn print(text: &str) -> Result<()> {
    let mut out = Output::new();
    let safe = if out.is_terminal() {
        safe::block(text)
    } else {
        text.into()
    };
    out.raw(safe.as_bytes())?;
    if !safe.ends_with('\n') {
        out.raw(b"\n")?;
    }
    out.finish()
}

fn write_new(path: &Path, text: &str) -> Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|error| cannot_write(path, &error))?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    let failure = Failure::new(format!("write {}: {error}", path.display()));
    match error.kind() {
        io::ErrorKind::AlreadyExists => failure.hint("choose another name, or remove it first"),
        io::ErrorKind::NotFound => failure.hint("make the directory first"),
        _ => failure,
    }
}
