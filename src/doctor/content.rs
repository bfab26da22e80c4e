//! What a session's file holds once the journal is carried out: its bytes, and
//! those that would come behind them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use memchr::memchr;

use crate::error::{Error, Result};
use crate::recovery::plan::{Base, Plan};
use crate::shard::load;
use crate::storage::{OpenMode, Storage, StorageFile};
use crate::view::behind_base;

/// How much is read at a time.
const CHUNK: u64 = 1 << 20;

/// A session's lines, not read yet.
#[derive(Debug, Default)]
pub(super) struct Content {
    file: Option<Arc<dyn StorageFile>>,
    /// So much of the file counts.
    len: u64,
    /// What comes behind that.
    behind: Vec<u8>,
}

impl Content {
    /// The lines of `stem`, given what the journal says of it.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(super) fn of(
        storage: &dyn Storage,
        dir: &Path,
        stem: &str,
        plan: Option<&Plan>,
    ) -> Result<Self> {
        let log = || load::open_log(storage, dir, stem, OpenMode::Read);
        let appended = plan.and_then(|plan| plan.appended.as_ref());
        let lines = appended.map_or(&[][..], |(_, lines)| lines);
        let (file, base, journalled) = match plan.map(|plan| &plan.base) {
            None | Some(Base::OnDisk) => (log()?, appended.map(|(at, _)| *at), lines.to_vec()),
            Some(Base::Deleted) => (None, Some(0), lines.to_vec()),
            Some(Base::Swapped(swap)) => {
                let temp = storage.open(&dir.join(&swap.temp), OpenMode::Read).ok();
                let file = if temp.is_some() { temp } else { log()? };
                (file, Some(swap.len), [&swap.tail, lines].concat())
            }
        };
        let wrap = |e| Error::io("read", dir, e);
        let len = match &file {
            Some(file) => file.info().map_err(wrap)?.len,
            None => 0,
        };
        let base = base.unwrap_or(len);
        let (len, behind) = behind_base(file.as_deref(), len, base, journalled).map_err(wrap)?;
        Ok(Self { file, len, behind })
    }

    /// Whether there are no bytes at all.
    pub(super) fn is_empty(&self) -> bool {
        self.len + self.behind.len() as u64 == 0
    }

    /// Calls `visit` with every line, its offset, and whether a line feed ends
    /// it. Holds one line and one chunk in memory, and no line of `behind` twice.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(super) fn for_each_line(&self, mut visit: impl FnMut(&[u8], u64, bool)) -> io::Result<()> {
        let (mut line, mut begin) = (Vec::new(), 0);
        let mut take = |mut part: &[u8]| {
            while let Some(lf) = memchr(b'\n', part) {
                line.extend_from_slice(&part[..lf]);
                visit(&line, begin, true);
                begin += line.len() as u64 + 1;
                line.clear();
                part = &part[lf + 1..];
            }
            line.extend_from_slice(part);
        };
        if let Some(file) = &self.file {
            let mut chunk = vec![0; CHUNK.min(self.len) as usize];
            let mut at = 0;
            while at < self.len {
                let want = CHUNK.min(self.len - at) as usize;
                file.read_exact_at(&mut chunk[..want], at)?;
                take(&chunk[..want]);
                at += want as u64;
            }
        }
        take(&self.behind);
        if !line.is_empty() {
            visit(&line, begin, false);
        }
        Ok(())
    }
}
