//! Whole trees of transcripts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use sessionlog::{ErrorKind, Format, StoreHandle, Transcript};

use super::sqlite::Database;
use super::{Found, is_database, key_of, kimi_code, named, open_database, read, take_in};
use crate::failure::{Failure, Outcome, Result};
use crate::output::{self, Output};
use crate::{names, progress, safe};

/// The counts of files by outcome.
#[derive(Default)]
pub(super) struct Report {
    /// By shape: files and messages.
    imported: BTreeMap<&'static str, (usize, usize)>,
    /// The file that was imported last.
    last: PathBuf,
    /// Remarks, each with the number of conversations it is true of.
    remarks: BTreeMap<String, usize>,
    /// The sessions of these conversations, each with its file.
    keys: BTreeMap<String, PathBuf>,
    /// Files that were left, with the reason.
    left: Vec<(PathBuf, String)>,
    /// The error that ended it early.
    failed: Option<sessionlog::Error>,
}

/// Imports every file of `root` and below, each conversation to a session of its own.
pub(super) fn import(
    root: &Path,
    prefix: Option<&str>,
    format: Option<Format>,
    chats: &StoreHandle,
) -> Result<Report> {
    let (mut files, mut report) = (Vec::new(), Report::default());
    list(root, &mut files, &mut report)?;
    let bar = progress::counted(files.len(), "conversations");
    for path in files {
        let done = match is_database(&path) {
            Ok(true) => match open_database(&path, format) {
                Ok(Some(found)) => database(root, &path, &found, prefix, chats, &mut report, &bar),
                Ok(None) => Ok(()),
                Err(why) => {
                    report.leave(path, &why);
                    Ok(())
                }
            },
            _ => file(root, path, prefix, format, chats, &mut report),
        };
        if let Err(error) = done {
            report.failed = Some(error);
            break;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(report)
}

/// Imports the sessions of the database `path`.
pub(super) fn import_database(
    path: &Path,
    found: &Database,
    prefix: Option<&str>,
    chats: &StoreHandle,
) -> Report {
    let mut report = Report::default();
    let bar = progress::counted(0, "conversations");
    let done = database(path, path, found, prefix, chats, &mut report, &bar);
    report.failed = done.err();
    bar.finish_and_clear();
    report
}

fn file(
    root: &Path,
    path: PathBuf,
    prefix: Option<&str>,
    format: Option<Format>,
    chats: &StoreHandle,
    report: &mut Report,
) -> sessionlog::Result<()> {
    match read(&path, format) {
        Ok(found) => {
            let key = key(root, &path, prefix, &found.transcript);
            one(&path, &found, &key, chats, report)
        }
        Err(why) => {
            report.leave(path, &why);
            Ok(())
        }
    }
}

/// Imports the sessions of a database.
fn database(
    root: &Path,
    path: &Path,
    database: &Database,
    prefix: Option<&str>,
    chats: &StoreHandle,
    report: &mut Report,
    bar: &ProgressBar,
) -> sessionlog::Result<()> {
    let mut done = Ok(());
    bar.inc_length(database.len() as u64);
    database.sessions(|session| {
        bar.inc(1);
        match session {
            Ok((transcript, replaced)) => {
                let key = key(root, path, prefix, &transcript);
                let found = Found {
                    transcript,
                    replaced,
                };
                done = one(path, &found, &key, chats, report);
            }
            Err(why) => report.left.push((path.to_owned(), why)),
        }
        done.is_ok()
    });
    done
}

/// Returns the key of the session that a file goes to.
fn key(root: &Path, path: &Path, prefix: Option<&str>, transcript: &Transcript) -> String {
    let inner = path.strip_prefix(root).unwrap_or(path).with_extension("");
    let shape = named(transcript.format).1;
    let of_prefix = |prefix: &str| match &transcript.id {
        Some(id) => format!("{prefix}:{id}"),
        None => format!("{prefix}:{}", inner.display()),
    };
    match prefix {
        Some(prefix) => of_prefix(prefix),
        None => key_of(transcript).unwrap_or_else(|| of_prefix(shape)),
    }
}

/// Imports the conversations of one file. It leaves a conversation that the store refuses, and
/// one for a session that has messages.
///
/// # Errors
/// The errors of the store: later files would fail, too.
fn one(
    path: &Path,
    found: &Found,
    key: &str,
    chats: &StoreHandle,
    report: &mut Report,
) -> sessionlog::Result<()> {
    let (mut messages, mut left) = (0, Vec::new());
    for (key, transcript) in found.conversations(key) {
        match unless_there(path, transcript, &key, chats) {
            Ok(Some(taken)) => {
                messages += taken;
                report.keys.insert(key, path.to_owned());
            }
            Ok(None) => {
                let of = match report.keys.get(&key) {
                    Some(other) => format!(", of {} in this import", other.display()),
                    None => String::new(),
                };
                left.push(format!("the session {key} has messages already{of}"));
            }
            Err(error) if is_of_one(error.kind()) => left.push(format!("{key}: {error}")),
            Err(error) => return Err(error),
        }
    }
    if messages > 0 || left.is_empty() {
        report.take(path, found, messages);
    }
    let left = left.into_iter().map(|why| (path.to_owned(), why));
    report.left.extend(left);
    Ok(())
}

/// Imports a conversation, unless it has messages that its session would get a second time.
fn unless_there(
    path: &Path,
    transcript: &Transcript,
    key: &str,
    chats: &StoreHandle,
) -> sessionlog::Result<Option<usize>> {
    if !transcript.messages.is_empty() && !chats.tail(key, 1).wait()?.is_empty() {
        return Ok(None);
    }
    take_in(path, transcript, key, chats).map(Some)
}

/// Returns true if an error concerns one conversation, and not the store.
fn is_of_one(kind: ErrorKind) -> bool {
    use ErrorKind::{Conflict, InvalidInput, NotFound, Unsupported};
    matches!(kind, Conflict | InvalidInput | NotFound | Unsupported)
}

/// Collects the files in a directory and below, in the order of their names. Links are not
/// followed. A directory below that cannot be read is left.
fn list(dir: &Path, files: &mut Vec<PathBuf>, report: &mut Report) -> Result<()> {
    if let Some(wires) = kimi_code::wires(dir) {
        files.extend(wires);
        return Ok(());
    }
    let cannot = |error| Failure::new(format!("read {}: {error}", dir.display()));
    let entries = std::fs::read_dir(dir).map_err(cannot)?;
    let mut entries = entries
        .collect::<std::io::Result<Vec<_>>>()
        .map_err(cannot)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    // What kimi-cli keeps beside a conversation.
    let is_of_kimi = dir.join("context.jsonl").is_file();
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type().map_err(cannot)?);
        let name = entry.file_name().to_string_lossy().into_owned();
        if kind.is_dir() {
            if let Err(why) = list(&path, files, report) {
                report.leave(path, &why);
            }
            continue;
        }
        let is_beside = is_of_kimi && matches!(&*name, "wire.jsonl" | "state.json");
        if kind.is_file() && !is_beside && (is_transcript(&name) || may_be_database(&path)) {
            files.push(path);
        }
    }
    Ok(())
}

fn is_transcript(name: &str) -> bool {
    let is_hidden = name.starts_with('.') || name.ends_with(".meta.json");
    let end = Path::new(name).extension();
    !is_hidden && end.is_some_and(|end| end == "json" || end == "jsonl")
}

/// Returns true if a file is named and begins as a database, and is to be looked into.
fn may_be_database(path: &Path) -> bool {
    let end = path.extension().and_then(|end| end.to_str());
    cfg!(feature = "sqlite")
        && matches!(end, Some("db" | "sqlite" | "sqlite3"))
        && is_database(path).unwrap_or(false)
}

impl Report {
    fn leave(&mut self, path: PathBuf, why: &Failure) {
        self.left.push((path, why.with_hint()));
    }

    fn take(&mut self, path: &Path, found: &Found, messages: usize) {
        let of = self
            .imported
            .entry(named(found.transcript.format).0)
            .or_default();
        // A database has several conversations.
        *of = (of.0 + usize::from(self.last != path), of.1 + messages);
        path.clone_into(&mut self.last);
        for remark in found.remarks() {
            *self.remarks.entry(remark).or_default() += 1;
        }
    }

    /// Tells what came of it.
    ///
    /// # Errors
    /// The error that ended it early.
    pub(super) fn tell(self) -> Result<Outcome> {
        let mut out = Output::new();
        for (shape, (files, messages)) in &self.imported {
            out.line(&format!(
                "{shape}: {}, {} imported",
                output::count(*files, "file"),
                output::count(*messages, "message")
            ))?;
        }
        if self.imported.is_empty() {
            out.line("no file was imported")?;
        }
        for (remark, many) in &self.remarks {
            let many = output::count(*many, "conversation");
            out.line(&format!("{remark} (in {many})"))?;
        }
        for (path, why) in &self.left {
            let line = format!("{}: left as it is: {why}", path.display());
            out.line(&out.paint(output::BAD, &safe::line(&names::text(&line))))?;
        }
        out.finish()?;
        match self.failed {
            Some(error) => Err(error.into()),
            None => Ok(Outcome::found(self.left.is_empty())),
        }
    }
}
