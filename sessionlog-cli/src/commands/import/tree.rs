//! Whole trees of transcripts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sessionlog::{Format, StoreHandle};

use super::{Found, key_of, named, read, take_in};
use crate::failure::{Failure, Outcome, Result};
use crate::output::{self, Output};
use crate::{progress, safe};

/// The counts of files by outcome.
#[derive(Default)]
struct Report {
    /// By shape: files and messages.
    imported: BTreeMap<&'static str, (usize, usize)>,
    /// Remarks, each with how many files it is true of.
    remarks: BTreeMap<String, usize>,
    /// Files that were left, and why.
    left: Vec<(PathBuf, String)>,
}

/// Imports every file of `root` and below, each to a session of its own.
pub(super) fn import(
    root: &Path,
    prefix: Option<&str>,
    format: Option<Format>,
    chats: &StoreHandle,
) -> Result<Outcome> {
    let mut files = Vec::new();
    list(root, &mut files)?;
    let bar = progress::counted(files.len(), "files");
    let mut report = Report::default();
    for path in files {
        match one(root, &path, prefix, format, chats) {
            Ok(Ok((found, messages))) => report.take(&found, messages),
            Ok(Err(why)) => report.left.push((path, why)),
            // The store fails: what comes after would, too.
            Err(error) => {
                bar.finish_and_clear();
                report.tell()?;
                return Err(error);
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    report.tell()?;
    Ok(Outcome::found(report.left.is_empty()))
}

/// Imports one file; why it was left, if so.
fn one(
    root: &Path,
    path: &Path,
    prefix: Option<&str>,
    format: Option<Format>,
    chats: &StoreHandle,
) -> Result<std::result::Result<(Found, usize), String>> {
    let found = match read(path, format) {
        Ok(found) => found,
        Err(why) => return Ok(Err(why.to_string())),
    };
    let inner = path.strip_prefix(root).unwrap_or(path).with_extension("");
    let own = || format!("{}:{}", named(found.transcript.format).1, inner.display());
    let own = key_of(&found.transcript).unwrap_or_else(own);
    let key = match prefix {
        Some(prefix) => {
            let (_, id) = own.split_once(':').unwrap_or(("", &own));
            format!("{prefix}:{id}")
        }
        None => own,
    };
    if !chats.tail(&key, 1).wait()?.is_empty() {
        return Ok(Err(format!("the session {key} has messages already")));
    }
    let messages = take_in(path, &found, &key, chats)?;
    Ok(Ok((found, messages)))
}

/// The files in a directory and below, in the order of their names. Links are not followed.
fn list(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let cannot = |error| Failure::new(format!("read {}: {error}", dir.display()));
    let entries = std::fs::read_dir(dir).map_err(cannot)?;
    let mut entries = entries
        .collect::<std::io::Result<Vec<_>>>()
        .map_err(cannot)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type().map_err(cannot)?);
        let name = entry.file_name().to_string_lossy().into_owned();
        if kind.is_dir() {
            list(&path, files)?;
        } else if kind.is_file() && is_transcript(&name) {
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

impl Report {
    fn take(&mut self, found: &Found, messages: usize) {
        let of = self
            .imported
            .entry(named(found.transcript.format).0)
            .or_default();
        *of = (of.0 + 1, of.1 + messages);
        for remark in found.remarks() {
            *self.remarks.entry(remark).or_default() += 1;
        }
    }

    fn tell(&self) -> Result<()> {
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
        for (remark, files) in &self.remarks {
            out.line(&format!("{remark} (in {})", output::count(*files, "file")))?;
        }
        for (path, why) in &self.left {
            let line = format!("{}: left as it is: {why}", path.display());
            out.line(&out.paint(output::BAD, &safe::line(&line)))?;
        }
        out.finish()
    }
}
