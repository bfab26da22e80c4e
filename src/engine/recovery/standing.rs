//! The present state of a session's two files, for the next record.

use std::path::Path;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file;
use sessionlog_wal::journal::record::{Prior, Record};
use sessionlog_wal::storage::{OpenMode, Storage};

use super::bytes::crc_of;
use super::foreign::sidecar::OnDisk;
use crate::disk::files::{self, log_path};

/// The present state of a session's two files.
#[derive(Debug)]
pub(crate) struct FilesState {
    len: u64,
    crc: u32,
    sidecar: Vec<u8>,
}

impl FilesState {
    /// Reads them whole.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn of(storage: &dyn Storage, dir: &Path, stem: &str) -> Result<Self> {
        let path = log_path(dir, stem);
        let log = files::open_log(storage, dir, stem, OpenMode::Read)?;
        let (mut len, mut crc) = (0, 0);
        if let Some(log) = log {
            let wrap = |e| Error::io("read", &path, e);
            len = log.info().map_err(wrap)?.len;
            crc = crc_of(&*log, len).map_err(wrap)?;
        }
        let on_disk = OnDisk::read(storage, dir, stem)?;
        let sidecar = on_disk.meta().map(session_file::encode_sidecar);
        Ok(Self {
            len,
            crc,
            sidecar: sidecar.unwrap_or_default(),
        })
    }

    /// True if the sidecar has this content.
    pub(crate) fn says(&self, image: &[u8]) -> bool {
        self.sidecar == image
    }

    /// Returns the record that puts a prepared file, of this length and CRC-32, in the place of the
    /// session's file.
    pub(crate) fn swap<'a>(
        &'a self,
        stem: &'a str,
        image: &'a [u8],
        temp: &'a str,
        (base_len, base_crc): (u64, u32),
    ) -> Record<'a> {
        Record::Swap {
            stem,
            generation: 0,
            before: self.prior(),
            image,
            temp,
            base_len,
            base_crc,
            tail: b"",
        }
    }

    /// Returns the state that a record states.
    pub(crate) fn prior(&self) -> Prior<'_> {
        Prior {
            len: self.len,
            crc: self.crc,
            sidecar: &self.sidecar,
        }
    }
}
