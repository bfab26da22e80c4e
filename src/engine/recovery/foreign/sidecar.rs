//! Decides whether a sidecar is as its store may have left it.

use std::io;
use std::path::Path;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, Agreement, SessionMeta};
use sessionlog_core::stamp::ZERO_TIME;
use sessionlog_wal::storage::Storage;

use super::super::plan::Plan;
use super::traces::arrived;
use crate::disk::files::{is_taken, sidecar};

/// The thing in a sidecar's place.
#[derive(Debug, Clone)]
pub(crate) enum OnDisk {
    Missing,
    /// It decodes.
    Meta {
        meta: Box<SessionMeta>,
        bytes: Vec<u8>,
    },
    /// It does not decode.
    Damaged(Vec<u8>),
    /// No sidecar: a directory, a session of an older store, a file too large to be one.
    Other(String),
}

/// The fate of a sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SidecarFate {
    AsLeft,
    Removed,
    /// Another program wrote it.
    Changed,
}

impl OnDisk {
    /// Reads it.
    ///
    /// # Errors
    /// If the operating system refuses to.
    pub(crate) fn read(storage: &dyn Storage, dir: &Path, stem: &str) -> Result<Self> {
        let path = dir.join(session_file::sidecar_name(stem));
        let bytes = match sidecar::read_bytes(storage, &path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Self::Missing),
            // No store writes one that is too large to be read.
            Err(e) if is_taken(&e) || e.kind() == io::ErrorKind::InvalidData => {
                return Ok(Self::Other(e.to_string()));
            }
            Err(e) => return Err(Error::io("read", &path, e)),
        };
        if session_file::holds_session(&bytes) {
            return Ok(Self::Other(String::from("it is no sidecar")));
        }
        Ok(match session_file::decode_sidecar(&bytes) {
            Ok(meta) => Self::Meta {
                meta: Box::new(meta),
                bytes,
            },
            Err(_) => Self::Damaged(bytes),
        })
    }

    pub(crate) fn meta(&self) -> Option<&SessionMeta> {
        match self {
            Self::Meta { meta, .. } => Some(meta),
            _ => None,
        }
    }

    pub(super) fn found(&self, plan: &Plan) -> SidecarFate {
        match self {
            // Recovery sets it aside, and reports it.
            Self::Other(_) | Self::Damaged(_) => SidecarFate::AsLeft,
            Self::Missing if plan.past.any_sidecar(None, |said| said.is_none()) => {
                SidecarFate::AsLeft
            }
            Self::Missing => SidecarFate::Removed,
            Self::Meta { meta, .. } if plan.past.had(meta, is_same) => SidecarFate::AsLeft,
            Self::Meta { bytes, .. } if is_torn(plan, bytes) => SidecarFate::AsLeft,
            Self::Meta { .. } => SidecarFate::Changed,
        }
    }
}

fn is_same(said: &SessionMeta, found: &SessionMeta) -> bool {
    let Agreement {
        key,
        summary,
        skip,
        count,
        created_at,
        updated_at,
        scope,
        aliases,
        title,
        labels,
        pinned,
        unknown,
    } = said.agreement(found);
    // The first append gives it a date.
    let created_at = created_at || found.created_at == ZERO_TIME;
    let key = key || found.key.is_empty();
    let tags = title && labels && pinned && unknown;
    key && summary && skip && count && created_at && updated_at && scope && aliases && tags
}

/// The bytes that a disk writes at once.
const SECTOR: usize = 512;

/// True if a power loss or a full disk may have made this of a sidecar that was overwritten in
/// place: every sector is one of a sidecar that the store wrote, or it begins as one of them and
/// ends as another.
pub(crate) fn is_torn(plan: &Plan, found: &[u8]) -> bool {
    let arrived_len = memchr::memrchr(b'}', found).map_or(0, |end| end + 1);
    let on_disk = session_file::decode_sidecar(&found[..arrived_len]).ok();
    let mut ours = vec![false; found.len().div_ceil(SECTOR)];
    let (mut begins, mut ends) = (0, 0);
    let count = on_disk.as_ref().map_or(0, |on_disk| on_disk.count);
    let mut longer = None;
    plan.past.any_sidecar(on_disk.as_ref(), |said| {
        let new = said.map(|said| said.count);
        longer = new.filter(|new| session_file::is_on_the_way(0, count, *new));
        longer.is_some()
    });
    // A sidecar that was to get a longer count got it digit by digit.
    let on_the_way = |said: &SessionMeta| {
        let is_it = |new: &i64| session_file::is_on_the_way(said.count, count, *new);
        longer.filter(is_it).map(|_| {
            let mut said = said.clone();
            said.count = count;
            said
        })
    };
    let mut is_ours = |said: Option<&SessionMeta>| {
        let mut said = said.map(session_file::encode_sidecar).unwrap_or_default();
        said.resize(found.len().max(said.len()), 0);
        let said = &said[..found.len()];
        for ((nth, sector), said) in found.chunks(SECTOR).enumerate().zip(said.chunks(SECTOR)) {
            ours[nth] |= arrived(sector, said);
        }
        let same = |(found, said): &(&u8, &u8)| found == said;
        begins = begins.max(found.iter().zip(said).take_while(same).count());
        let back = found.iter().rev().zip(said.iter().rev());
        ends = ends.max(back.take_while(same).count());
        begins + ends >= found.len() || ours.iter().all(|ours| *ours)
    };
    plan.past.any_sidecar(on_disk.as_ref(), |said| {
        let longer = said.and_then(on_the_way);
        is_ours(said) || longer.is_some() && is_ours(longer.as_ref())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::recovery::plan::Plans;
    use sessionlog_core::stamp;
    use sessionlog_wal::journal::record::{MetaState, Record, Time};

    const OLD: i64 = 1_767_312_000_000_000_001;
    const NEW: i64 = OLD + 3_000_000_000;

    fn sidecar(count: i64, updated: i64) -> SessionMeta {
        let mut meta = SessionMeta::empty("a");
        // So that a sector ends between the count and the time.
        meta.summary = "s".repeat(430);
        meta.count = count;
        meta.updated_at = stamp::Stamp::At(updated).to_string();
        meta
    }

    #[test]
    fn a_count_on_its_way_to_more_digits_is_ours_whatever_sectors_arrived_with_it() {
        let image = session_file::encode_sidecar(&sidecar(1, OLD));
        let append = |meta, bytes| Record::Append {
            stem: "a",
            generation: 1,
            offset: 0,
            crc: 0,
            meta,
            once: "",
            bytes,
        };
        let patch = MetaState::Patch {
            skip: 0,
            count: 1_234,
            updated_at: Time::At(NEW),
        };
        let mut plans: Plans = Plans::default();
        plans.apply(&append(MetaState::First(&image), b"{}\n"));
        plans.apply(&append(patch, b"{}\n"));
        let plan = &plans.sessions["a"];

        let new = session_file::encode_sidecar(&sidecar(1_234, NEW));
        let mut all = vec![image.clone()];
        all.extend(session_file::on_the_way(&image, &new).unwrap());
        all.push(new);
        for counted in &all {
            for timed in &all {
                let torn = [&counted[..SECTOR], &timed[SECTOR..]].concat();
                let meta = session_file::decode_sidecar(&torn).unwrap();
                assert!(is_torn(plan, &torn), "{meta:?}");
            }
        }
        let others = [(7, OLD), (13, OLD), (120, NEW), (2_000, NEW), (12, NEW + 1)];
        for (count, updated) in others {
            let theirs = session_file::encode_sidecar(&sidecar(count, updated));
            assert!(!is_torn(plan, &theirs), "{count}");
        }
    }
}
