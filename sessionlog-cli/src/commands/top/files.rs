//! The figures of the engine's files, without a look at the sessions.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sessionlog::StoreHandle;

use super::sample::{Group, Sample, Seldom, Source, Value};
use crate::failure::Result;
use crate::{lock, progress};

/// The engine's own directory, and the file system.
pub(super) struct Files<'a> {
    dir: &'a Path,
    chats: &'a StoreHandle,
    seldom: Seldom,
    aside: Aside,
}

/// Sizes that change seldom, bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Aside {
    archive: u64,
    backups: u64,
    quarantine: u64,
}

impl<'a> Files<'a> {
    pub(super) fn of(dir: &'a Path, chats: &'a StoreHandle) -> Self {
        Self {
            dir,
            chats,
            seldom: Seldom::default(),
            aside: Aside::default(),
        }
    }
}

impl Source for Files<'_> {
    fn add(&mut self, sample: &mut Sample) -> Result<()> {
        let own = self.dir.join(".sessionlog");
        let of = |name: &str| progress::size_of(&own.join(name));
        let aside = self.seldom.run(|| {
            Ok(Aside {
                archive: of("archive"),
                backups: of("backups"),
                quarantine: of("quarantine"),
            })
        })?;
        self.aside = aside.unwrap_or(self.aside);
        let mut group = Group::new("store", "store");
        group.add(
            "writer",
            "written to by",
            Value::Text(lock::writer(self.dir).text()),
        );
        let free = self.chats.status().wait()?.free_space;
        let free = free.map_or(Value::Unknown(None), Value::Bytes);
        group.add("free_space_bytes", "space left", free);
        group.add("archive_bytes", "archive", Value::Bytes(self.aside.archive));
        group.add("backups_bytes", "backups", Value::Bytes(self.aside.backups));
        group.add(
            "quarantine_bytes",
            "quarantine",
            Value::Bytes(self.aside.quarantine),
        );
        sample.groups.push(group);
        sample.groups.push(journal(&own.join("journal")));
        Ok(())
    }
}

fn journal(dir: &Path) -> Group {
    let mut group = Group::new("journal", "journal");
    let segments = segments(dir);
    let bytes = segments.iter().map(|(_, bytes, _)| bytes).sum();
    group.add("segments", "segments", Value::Count(segments.len() as u64));
    group.add("bytes", "size", Value::Bytes(bytes));
    let last = segments.iter().map(|(_, _, changed)| *changed).max();
    let age = last.and_then(|last| SystemTime::now().duration_since(last).ok());
    let age = age.map_or(Value::Unknown(None), |age| Value::Age(age.as_secs_f64()));
    group.add("last_write_seconds_ago", "last write", age);
    group
}

fn segments(dir: &Path) -> Vec<(PathBuf, u64, SystemTime)> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let segments = entries.filter_map(|entry| {
        let info = entry.metadata().ok()?;
        Some((entry.path(), info.len(), info.modified().ok()?))
    });
    segments.collect()
}
