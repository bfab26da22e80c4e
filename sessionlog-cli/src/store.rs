//! Opens the store of a command.

use std::path::{Path, PathBuf};

use clap::Args;
use sessionlog::{RecoveryReport, Store, StoreHandle, StoreOptions};

use crate::failure::{Failure, Result};
use crate::{names, output};

/// The store that a command is about.
#[derive(Args, Clone, Debug)]
pub(crate) struct Dir {
    /// The store's directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// How a store is opened for writing.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Writing {
    /// Wait so long for another writer to go, such as 10s
    #[arg(long, value_name = "TIME", value_parser = crate::times::parse_length)]
    wait: Option<std::time::Duration>,
    /// Open a directory that belongs to another user
    #[arg(long)]
    allow_other_owner: bool,
    /// Open a directory on a file system without locks. No other process may write to it
    #[arg(long)]
    allow_missing_lock: bool,
}

/// The most ids of messages that a store can remember.
const ALL_IDS: usize = 1 << 16;

/// A store open for reading, beside its writer if it has one.
pub(crate) struct Reading {
    store: Store,
    pub(crate) chats: StoreHandle,
}

impl Dir {
    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    /// Opens it read-only.
    ///
    /// # Errors
    /// If there is none, or its journal is damaged.
    pub(crate) fn read(&self) -> Result<Reading> {
        self.is_store()?;
        let store = Store::open_read_only(&self.dir)?;
        let chats = store.handle().exact_keys();
        names::learn_from(&chats);
        Ok(Reading { store, chats })
    }

    /// Opens it for writing, and reports the findings of opening.
    ///
    /// # Errors
    /// If there is none, or another process writes to it.
    pub(crate) fn write(&self, how: Writing) -> Result<Store> {
        self.write_with(how, StoreOptions::new())
    }

    /// Does the same, with options.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub(crate) fn write_with(&self, how: Writing, options: StoreOptions) -> Result<Store> {
        self.is_store()?;
        self.open(how, options)
    }

    /// Does the same; a directory that does not exist, or is empty, becomes a store.
    ///
    /// # Errors
    /// If the directory holds other things, or another process writes to it.
    pub(crate) fn create_with(&self, how: Writing, options: StoreOptions) -> Result<Store> {
        self.create(how, options, is_of_store)
    }

    /// Does the same; the directory may be one of PicoClaw's older manager.
    ///
    /// # Errors
    /// As [`create_with`](Self::create_with).
    pub(crate) fn create_or_older(&self, how: Writing) -> Result<Store> {
        self.create(how, StoreOptions::new(), is_session_data)
    }

    fn create(&self, how: Writing, options: StoreOptions, is_such: Named) -> Result<Store> {
        if self.dir.is_dir() && self.has_any(|_| true)? && !self.has_any(is_such)? {
            let what = format!("{} holds other things than sessions", self.dir.display());
            return Err(Failure::new(what).hint("name a store, or a new or empty directory"));
        }
        self.open(how, options)
    }

    fn open(&self, how: Writing, options: StoreOptions) -> Result<Store> {
        // Data that the gateway's own options would keep is kept: hidden lines, which a compaction
        // would drop past its archive, and the ids of messages.
        let options = options
            .auto_compact(false)
            .once_ids(ALL_IDS)
            .allow_other_owner(how.allow_other_owner)
            .allow_missing_lock(how.allow_missing_lock);
        let options = match how.wait {
            Some(wait) => options.open_timeout(wait),
            None => options,
        };
        let store = Store::open_with(&self.dir, options)?;
        names::learn_from(&store.handle());
        let report = store.recovery_report();
        if report.replayed_records > 0 && !report.clean {
            let records = report.replayed_records;
            output::note(&format!(
                "the last writer did not close the store; {records} records of the journal \
                 were carried out"
            ));
        }
        for finding in &report.findings {
            output::warn(finding);
        }
        Ok(store)
    }

    /// # Errors
    /// If there is no directory, or nothing in it that belongs to a store. A typing error must not
    /// make a store.
    pub(crate) fn is_store(&self) -> Result<()> {
        let hint = "name the directory that the gateway keeps its sessions in";
        if !self.dir.is_dir() {
            let what = format!("there is no directory {}", self.dir.display());
            return Err(Failure::new(what).hint(hint));
        }
        if self.has_any(is_of_store)? {
            return Ok(());
        }
        let what = format!("there are no sessions in {}", self.dir.display());
        let old = "`sessionlog migrate DIR` takes over what PicoClaw's older manager wrote";
        let is_old = self.has_any(is_session_data)?;
        Err(Failure::new(what).hint(if is_old { old } else { hint }))
    }

    /// Returns true if an entry of the directory has such a name.
    fn has_any(&self, is_such: impl Fn(&str) -> bool) -> Result<bool> {
        for entry in self.dir.read_dir()? {
            if is_such(&entry?.file_name().to_string_lossy()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A test of a file name.
type Named = fn(&str) -> bool;

/// Returns true for the names of a store's files.
fn is_of_store(name: &str) -> bool {
    let ends = [".jsonl", ".meta.json"];
    name == ".sessionlog" || ends.iter().any(|end| name.ends_with(end))
}

/// Returns true for the same, and for the sessions of PicoClaw's older manager.
fn is_session_data(name: &str) -> bool {
    is_of_store(name) || Path::new(name).extension().is_some_and(|end| end == "json")
}

impl Reading {
    /// Returns the findings of the first look.
    pub(crate) fn report(&self) -> &RecoveryReport {
        self.store.recovery_report()
    }
}

impl Writing {
    pub(crate) fn allows_other_owner(self) -> bool {
        self.allow_other_owner
    }

    pub(crate) fn allows_missing_lock(self) -> bool {
        self.allow_missing_lock
    }
}

/// Returns `sessionlog VERB DIR`, to be pasted into a shell.
pub(crate) fn command(verb: &str, dir: &Path) -> String {
    format!("sessionlog {verb} {}", quoted(dir))
}

/// Returns a path quoted for a shell.
pub(crate) fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@:,".contains(c);
    if !path.is_empty() && path.chars().all(is_plain) {
        return path.into_owned();
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}
