//! What PicoClaw does to a directory of sessions, file operation by file operation:
//! what it reads, writes and replaces, in which order, and what it forgets.
//!
//! Lines and sidecars are read and written by the tables of `golden_suite`, which
//! recordings of PicoClaw prove. Nothing here knows the engine.

mod editor;
mod files;
mod lines;
mod sidecar;
mod tests;

use std::cell::Cell;

use serde_json::{Map, Value};

pub(crate) use files::{Files, InMemory, OnDisk};
pub(crate) use lines::shown;
pub(crate) use sidecar::Sidecar;

use crate::foreign::json::Json;
use crate::foreign::schema::ZERO_TIME;
use lines::{encode, is_transient, raw_lines, visible};

/// An operation that failed. The wording does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// A message as stored.
pub(crate) type Record = Map<String, Value>;

/// A PicoClaw at work on a directory.
#[derive(Debug)]
pub(crate) struct PicoClaw<F> {
    pub(crate) files: F,
    /// Seconds since 2031, which no engine writes; each look at it takes one more.
    clock: Cell<u64>,
}

impl<F: Files> PicoClaw<F> {
    pub(crate) fn new(files: F, clock: u64) -> Self {
        Self {
            files,
            clock: Cell::new(clock),
        }
    }

    /// The messages that it shows, oldest first.
    ///
    /// # Errors
    /// If the sidecar does not decode, or a line is too long.
    pub(crate) fn history(&self, key: &str) -> Result<Vec<Record>, Refused> {
        // The sidecar first, then the log.
        let sidecar = self.files.read(&sidecar_name(key));
        let log = self.files.read(&log_name(key));
        shown(sidecar.as_deref(), log.as_deref())
    }

    /// The texts of the [`history`](Self::history).
    ///
    /// # Errors
    /// As for that.
    pub(crate) fn texts(&self, key: &str) -> Result<Vec<String>, Refused> {
        let history = self.history(key)?;
        let texts = history
            .iter()
            .filter_map(|record| record["content"].as_str());
        Ok(texts.map(str::to_owned).collect())
    }

    /// What is known about the session beyond its lines.
    ///
    /// # Errors
    /// If the sidecar does not decode.
    pub(crate) fn sidecar(&self, key: &str) -> Result<Sidecar, Refused> {
        let Some(bytes) = self.files.read(&sidecar_name(key)) else {
            return Ok(Sidecar::new(key));
        };
        let mut sidecar = Sidecar::decode(&bytes).ok_or(Refused)?;
        if sidecar.key.is_empty() {
            key.clone_into(&mut sidecar.key);
        }
        Ok(sidecar)
    }

    /// The keys that it lists, in the order of their file names.
    pub(crate) fn keys(&self) -> Vec<String> {
        let names = self.files.list().into_iter();
        let names = names.filter(|name| name.ends_with(".meta.json"));
        let sidecars = names.filter_map(|name| Sidecar::decode(&self.files.read(&name)?));
        let keys = sidecars.map(|sidecar| sidecar.key);
        keys.filter(|key| !key.is_empty()).collect()
    }

    /// Adds a message, whatever the log ends in.
    ///
    /// # Errors
    /// If the sidecar does not decode; the line is stored then.
    pub(crate) fn add(&self, key: &str, role: &str, text: &str) -> Result<(), Refused> {
        self.add_record(key, &self.message(role, text))
    }

    /// As [`add`](Self::add), of any message.
    ///
    /// # Errors
    /// As for that.
    pub(crate) fn add_record(&self, key: &str, record: &Record) -> Result<(), Refused> {
        if is_transient(record) {
            return Ok(());
        }
        self.files.append(&log_name(key), &encode(record)?);
        let mut sidecar = self.sidecar(key)?;
        sidecar.count += 1;
        self.put_sidecar_of_life(key, sidecar);
        Ok(())
    }

    /// Replaces all messages.
    ///
    /// # Errors
    /// If the sidecar does not decode.
    pub(crate) fn set_history(&self, key: &str, said: &[(&str, &str)]) -> Result<(), Refused> {
        let records = said.iter().map(|(role, text)| self.message(role, text));
        self.set_records(key, &records.collect::<Vec<_>>())
    }

    /// As [`set_history`](Self::set_history), of any messages.
    ///
    /// # Errors
    /// As for that.
    pub(crate) fn set_records(&self, key: &str, records: &[Record]) -> Result<(), Refused> {
        let mut sidecar = self.sidecar(key)?;
        let kept: Vec<_> = records.iter().filter(|r| !is_transient(r)).collect();
        sidecar.skip = 0;
        sidecar.count = count(kept.len());
        self.put_sidecar_of_life(key, sidecar);
        self.rewrite(key, kept.into_iter())
    }

    /// Hides all messages but the last `keep_last`.
    ///
    /// # Errors
    /// If the sidecar does not decode, or a line is too long.
    pub(crate) fn truncate(&self, key: &str, keep_last: i64) -> Result<(), Refused> {
        let mut sidecar = self.sidecar(key)?;
        let log = self.files.read(&log_name(key)).unwrap_or_default();
        let lines = raw_lines(&log)?;
        let all = count(lines.len());
        sidecar.skip = sidecar.skip.min(all);
        let retained = visible(&lines, sidecar.skip);
        let keep = usize::try_from(keep_last).unwrap_or(0);
        if keep == 0 || retained.is_empty() {
            sidecar.skip = all;
        } else if keep < retained.len() {
            sidecar.skip = retained[retained.len() - keep - 1].0;
        }
        sidecar.count = all;
        self.put_sidecar(key, sidecar);
        Ok(())
    }

    /// Drops what is hidden from the log, and what does not decode with it.
    ///
    /// # Errors
    /// If the sidecar does not decode, a line is too long, or one has a time that it
    /// cannot write; then everything hidden shows.
    pub(crate) fn compact(&self, key: &str) -> Result<(), Refused> {
        let mut sidecar = self.sidecar(key)?;
        if sidecar.skip == 0 {
            return Ok(());
        }
        let log = self.files.read(&log_name(key)).unwrap_or_default();
        let kept = visible(&raw_lines(&log)?, sidecar.skip);
        sidecar.skip = 0;
        sidecar.count = count(kept.len());
        self.put_sidecar(key, sidecar);
        self.rewrite(key, kept.iter().map(|(_, record)| record))
    }

    /// # Errors
    /// If the sidecar does not decode.
    pub(crate) fn set_summary(&self, key: &str, text: &str) -> Result<(), Refused> {
        let mut sidecar = self.sidecar(key)?;
        text.clone_into(&mut sidecar.summary);
        self.put_sidecar_of_life(key, sidecar);
        Ok(())
    }

    /// Replaces scope and aliases; the scope is JSON text.
    ///
    /// # Errors
    /// If the sidecar does not decode.
    pub(crate) fn upsert(
        &self,
        key: &str,
        scope: Option<&str>,
        aliases: &[&str],
    ) -> Result<(), Refused> {
        let mut sidecar = self.sidecar(key)?;
        sidecar.scope = scope.and_then(|scope| Json::parse(scope.as_bytes()));
        sidecar.aliases = Vec::new();
        for alias in aliases.iter().map(|alias| alias.trim().to_owned()) {
            if !alias.is_empty() && alias != key.trim() && !sidecar.aliases.contains(&alias) {
                sidecar.aliases.push(alias);
            }
        }
        self.put_sidecar_of_life(key, sidecar);
        Ok(())
    }

    /// A person removes both files.
    pub(crate) fn delete(&self, key: &str) {
        self.delete_log(key);
        self.delete_sidecar(key);
    }

    /// A person removes the log alone.
    pub(crate) fn delete_log(&self, key: &str) {
        self.files.remove(&log_name(key));
    }

    /// A person removes the sidecar alone.
    pub(crate) fn delete_sidecar(&self, key: &str) {
        self.files.remove(&sidecar_name(key));
    }

    /// A message said now.
    fn message(&self, role: &str, text: &str) -> Record {
        let fields = [
            ("role", role.to_owned()),
            ("content", text.to_owned()),
            ("created_at", self.now()),
        ];
        let fields = fields.into_iter();
        fields
            .map(|(name, text)| (name.to_owned(), text.into()))
            .collect()
    }

    fn now(&self) -> String {
        let second = self.clock.replace(self.clock.get() + 1);
        let (minute, hour, day) = (second / 60, second / 3600, second / 86_400);
        assert!(day < 31, "the clock stays in its month");
        let (day, hour, minute, second) = (day + 1, hour % 24, minute % 60, second % 60);
        format!("2031-01-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }

    /// Puts a sidecar in the place of the old one; the session may begin with it.
    fn put_sidecar_of_life(&self, key: &str, mut sidecar: Sidecar) {
        if sidecar.created_at == ZERO_TIME {
            sidecar.created_at = self.now();
        }
        self.put_sidecar(key, sidecar);
    }

    fn put_sidecar(&self, key: &str, mut sidecar: Sidecar) {
        sidecar.updated_at = self.now();
        self.files.replace(&sidecar_name(key), &sidecar.encode());
    }

    /// Puts a new log in the place of the old one.
    fn rewrite<'a>(
        &self,
        key: &str,
        records: impl Iterator<Item = &'a Record>,
    ) -> Result<(), Refused> {
        let lines = records.map(encode).collect::<Result<Vec<_>, _>>()?;
        self.files.replace(&log_name(key), &lines.concat());
        Ok(())
    }
}

/// The name of a session's log.
pub(crate) fn log_name(key: &str) -> String {
    format!("{}.jsonl", key.replace([':', '/', '\\'], "_"))
}

/// The name of a session's sidecar.
pub(crate) fn sidecar_name(key: &str) -> String {
    format!("{}.meta.json", key.replace([':', '/', '\\'], "_"))
}

fn count(lines: usize) -> i64 {
    i64::try_from(lines).unwrap_or(i64::MAX)
}
