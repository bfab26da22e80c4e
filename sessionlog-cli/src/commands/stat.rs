//! `sessionlog stat`: a store, or one session of it, at a glance.

use std::path::Path;

use clap::Args;
use serde::Serialize;
use sessionlog::{SessionMeta, SessionQuery, StoreHandle};

use crate::failure::{Outcome, Result};
use crate::lock::{self, Writer};
use crate::output::{self, HEAD, Output};
use crate::progress;
use crate::store::Dir;
use crate::{names, resolve, safe, times};

/// Show a store, or one session, at a glance
///
/// Of a store: how many sessions, what they take, who writes to it, whether it was closed in
/// order, and what space is left. Of a session: its keys, title and labels, times, sizes,
/// checkpoints, backups and what is archived of it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog stat DIR
  sessionlog stat DIR telegram:123456
  sessionlog stat DIR --json | jq .writer

If an alias of several sessions or another finding is shown, `sessionlog verify DIR` says more.")]
pub(crate) struct Stat {
    #[command(flatten)]
    dir: Dir,
    /// A session: its key, an alias, or the beginning of either
    session: Option<String>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Stat {
    pub(crate) fn run(self) -> Result<Outcome> {
        let store = self.dir.read()?;
        let mut out = Output::new();
        match &self.session {
            None => {
                let stat = StoreStat::of(&store.chats, store.report(), self.dir.path())?;
                if self.json {
                    out.json(&stat)?;
                } else {
                    stat.show(&mut out)?;
                }
            }
            Some(name) => {
                let key = resolve::session(&store.chats, name)?;
                let stat = SessionStat::of(&store.chats, &key)?;
                if self.json {
                    out.json(&stat)?;
                } else {
                    stat.show(&mut out)?;
                }
            }
        }
        out.finish()?;
        Ok(Outcome::Done)
    }
}

#[derive(Serialize)]
struct StoreStat {
    sessions: usize,
    in_trash: usize,
    updated_at: Option<String>,
    bytes: Sizes,
    files: usize,
    free_space: Option<u64>,
    writer: Writer,
    closed_in_order: bool,
    records_to_carry_out: u64,
    contested_aliases: usize,
    findings: Vec<String>,
}

/// Sizes by kind, bytes.
#[derive(Default, Serialize)]
struct Sizes {
    sessions: u64,
    sidecars: u64,
    journal: u64,
    archive: u64,
    backups: u64,
    other: u64,
}

impl StoreStat {
    fn of(chats: &StoreHandle, report: &sessionlog::RecoveryReport, dir: &Path) -> Result<Self> {
        let newest = SessionQuery::new()
            .order(sessionlog::SessionOrder::Updated)
            .limit(1);
        let newest = chats.sessions(newest).wait()?.sessions.pop();
        let (bytes, files) = Sizes::of(dir)?;
        let trash = SessionQuery::new().deleted().limit(usize::MAX);
        let in_trash = chats.sessions(trash).wait()?.sessions.len();
        Ok(Self {
            sessions: report.sessions.saturating_sub(in_trash),
            in_trash,
            updated_at: newest.map(|session| session.updated_at),
            bytes,
            files,
            free_space: chats.status().wait()?.free_space,
            writer: lock::writer(dir),
            closed_in_order: report.clean,
            records_to_carry_out: report.replayed_records,
            contested_aliases: report.contested_aliases,
            findings: report.findings.clone(),
        })
    }

    fn show(&self, out: &mut Output) -> Result<()> {
        let mut rows = Rows(Vec::new());
        rows.add("sessions", self.sessions);
        if self.in_trash > 0 {
            rows.add("in the trash", self.in_trash);
        }
        if let Some(time) = &self.updated_at {
            rows.add("changed last", times::shown(time));
        }
        rows.add("written to by", self.writer.text());
        rows.add("last close", self.ending());
        let Sizes {
            sessions,
            sidecars,
            journal,
            archive,
            backups,
            other,
        } = &self.bytes;
        for (what, bytes) in [
            ("session files", sessions),
            ("sidecars", sidecars),
            ("journal", journal),
            ("archive", archive),
            ("backups", backups),
            ("all else", other),
        ] {
            rows.add(what, output::bytes(*bytes));
        }
        rows.add("files", self.files);
        if let Some(free) = self.free_space {
            rows.add("space left", output::bytes(free));
        }
        if self.contested_aliases > 0 {
            rows.add("contested aliases", self.contested_aliases);
        }
        rows.show(out)?;
        for finding in &self.findings {
            out.line(&out.paint(output::BAD, &safe::line(&names::text(finding))))?;
        }
        Ok(())
    }

    fn ending(&self) -> String {
        let records = self.records_to_carry_out;
        match (&self.writer, self.closed_in_order) {
            (_, true) => String::from("in order"),
            (Writer::Nobody, false) => {
                format!("not in order: the next open carries out {records} records of the journal")
            }
            (_, false) => String::from("it is open"),
        }
    }
}

impl Sizes {
    /// Returns the sizes of the files, and their number.
    fn of(dir: &Path) -> Result<(Self, usize)> {
        let (mut sizes, mut files) = (Self::default(), 0);
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            // The file is gone meanwhile.
            let Ok(info) = entry.metadata() else { continue };
            if info.is_dir() {
                continue;
            }
            files += 1;
            let name = entry.file_name();
            let size = if name.as_encoded_bytes().ends_with(b".jsonl") {
                &mut sizes.sessions
            } else if name.as_encoded_bytes().ends_with(b".meta.json") {
                &mut sizes.sidecars
            } else {
                &mut sizes.other
            };
            *size += info.len();
        }
        let own = dir.join(".sessionlog");
        sizes.journal = progress::size_of(&own.join("journal"));
        sizes.archive = progress::size_of(&own.join("archive"));
        sizes.backups = progress::size_of(&own.join("backups"));
        let known = sizes.journal + sizes.archive + sizes.backups;
        sizes.other += progress::size_of(&own).saturating_sub(known);
        Ok((sizes, files))
    }
}

#[derive(Serialize)]
struct SessionStat {
    #[serde(flatten)]
    meta: SessionMeta,
    messages: usize,
    bytes: u64,
    token_count: i64,
    checkpoints: Vec<i64>,
    backups: Vec<BackupStat>,
    archived_months: Vec<String>,
}

#[derive(Serialize)]
struct BackupStat {
    number: u64,
    created_at: String,
    reason: String,
    bytes: u64,
}

impl SessionStat {
    fn of(chats: &StoreHandle, key: &str) -> Result<Self> {
        let snapshot = chats.snapshot(key).wait()?;
        let page = chats
            .sessions(SessionQuery::new().prefix(key).limit(usize::MAX))
            .wait()?;
        let info = page.sessions.into_iter().find(|session| session.key == key);
        let backups = chats.list_backups(key).wait()?.into_iter();
        let backups = backups.map(|backup| BackupStat {
            number: backup.number,
            created_at: backup.created_at,
            reason: format!("{:?}", backup.reason).to_lowercase(),
            bytes: backup.size,
        });
        Ok(Self {
            meta: snapshot.meta(),
            messages: snapshot.count().wait()?,
            bytes: info.map_or(0, |info| info.bytes),
            token_count: chats.context(key).token_count().wait()?,
            checkpoints: chats
                .checkpoints(key)
                .wait()?
                .into_iter()
                .map(i64::from)
                .collect(),
            backups: backups.collect(),
            archived_months: chats.archived_months(key).wait()?,
        })
    }

    fn show(&self, out: &mut Output) -> Result<()> {
        let mut rows = Rows(Vec::new());
        rows.add("key", safe::line(&self.meta.key));
        for alias in &self.meta.aliases {
            rows.add("alias", safe::line(alias));
        }
        let tags = &self.meta.tags;
        if !tags.title.is_empty() {
            rows.add("title", safe::line(&tags.title));
        }
        for label in &tags.labels {
            rows.add("label", safe::line(label));
        }
        if tags.pinned {
            rows.add("pinned", "yes");
        }
        if let Some(scope) = &self.meta.scope {
            rows.add("scope", safe::line(scope.get()));
        }
        if !self.meta.summary.is_empty() {
            rows.add("summary", safe::short(&self.meta.summary, 200));
        }
        rows.add("made", times::shown(&self.meta.created_at));
        rows.add("changed", times::shown(&self.meta.updated_at));
        rows.add("messages", self.messages);
        rows.add("lines", self.meta.count);
        rows.add("hidden lines", self.meta.skip);
        rows.add("size", output::bytes(self.bytes));
        if self.token_count != 0 {
            rows.add("tokens", self.token_count);
        }
        if !self.checkpoints.is_empty() {
            rows.add("checkpoints", format!("{:?}", self.checkpoints));
        }
        for backup in &self.backups {
            let made = times::shown(&backup.created_at);
            let size = output::bytes(backup.bytes);
            rows.add(
                "backup",
                format!("{} {made} {} {size}", backup.number, backup.reason),
            );
        }
        if !self.archived_months.is_empty() {
            rows.add("archived", self.archived_months.join(" "));
        }
        rows.show(out)
    }
}

/// Facts, one on each line.
struct Rows(Vec<(&'static str, String)>);

impl Rows {
    fn add(&mut self, what: &'static str, value: impl std::fmt::Display) {
        self.0.push((what, value.to_string()));
    }

    fn show(&self, out: &mut Output) -> Result<()> {
        let width = self.0.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
        for (what, value) in &self.0 {
            let what = out.paint(HEAD, &format!("{what:width$}"));
            out.line(&format!("{what}  {value}"))?;
        }
        Ok(())
    }
}
