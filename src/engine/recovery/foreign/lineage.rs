//! Finds out which of the files that a session had stands in its place, and where in it the lines
//! of others begin.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::Path;

use memchr::memchr;
use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::StorageFile;

use super::super::bytes::{Bytes, CHUNK};
use super::super::plan::{Base, Earlier, Past, Plan, Prefix, Run};
use super::super::planned::PlannedFiles;
use super::traces::{LineMarks, arrived, is_damaged_before, tells, walk};
use crate::disk::files;
use crate::disk::files::lines::LONGEST;

/// The file found in a session file's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoundFile {
    /// A file that the session had, written as far as a crash may have left it.
    AsLeft,
    /// The same, with lines of others after ours, from this offset on. If it is not `sound`, bytes
    /// before the journal's lines were changed, too.
    Added {
        from: u64,
        sound: bool,
    },
    /// The same, with bytes before the journal's lines changed in place.
    Edited,
    /// It may be the same, but none of the journal's lines is there to tell.
    Doubtful,
    Rewritten,
    Gone,
}

/// A file that the session had, as far as the journal knows it.
struct Reference<'a> {
    /// Its length before the journal's lines, and the CRC-32 of those bytes.
    base: u64,
    crc: u32,
    /// The unsynced copy that those bytes are, if they are one: only part of it may have arrived.
    copy: Option<&'a Prefix>,
    /// The lines that the journal puts after that.
    rest: Cow<'a, [u8]>,
    /// True if the session had no line before the journal's, and may have had no file since: others
    /// add their first line as we do.
    begins_empty: bool,
    /// True if it is the present file.
    is_present: bool,
}

/// Finds out what `log` is; also returns true if it is the session's present file.
///
/// # Errors
/// If files cannot be read.
pub(super) fn find(
    planned: PlannedFiles<'_>,
    plan: &Plan,
    (path, log): (&Path, Option<&Bytes>),
) -> Result<(FoundFile, bool)> {
    let waits = waits_for_its_name(planned, plan)?;
    let Some((log, file)) = log.and_then(|log| Some((log, log.file.as_deref()?))) else {
        let found = if plan.may_be_absent(waits) {
            FoundFile::AsLeft
        } else {
            FoundFile::Gone
        };
        return Ok((found, false));
    };
    let in_place = !waits && matches!(plan.base, Base::OnDisk | Base::Swapped(_));
    let wrap = |e| Error::io("read", path, e);
    let files: Vec<_> = files_of(planned, plan, plan.may_be_absent(waits)).collect();
    let sums = Sums::of(file, log.len, files.iter().map(|of| of.base)).map_err(wrap)?;
    // Of all files that it may have been, the one with the most bytes in common.
    let mut best: Option<(FoundFile, u64, &Reference<'_>)> = None;
    for of in &files {
        let (found, same) = of.fit(planned, (path, file, log.len), &sums)?;
        if found == FoundFile::AsLeft {
            return Ok((FoundFile::AsLeft, of.is_present));
        }
        let possible = found != FoundFile::Rewritten && !(of.is_present && waits);
        if possible && best.is_none_or(|(_, best, _)| best < same) {
            best = Some((found, same, of));
        }
    }
    if let Some((found, _, of)) = best
        && of
            .holds(found, log, of.is_present && in_place)
            .map_err(wrap)?
    {
        return Ok((found, of.is_present));
    }
    Ok((FoundFile::Rewritten, false))
}

/// Returns true if the present file was prepared, and has not got the session file's name.
pub(super) fn waits_for_its_name(planned: PlannedFiles<'_>, plan: &Plan) -> Result<bool> {
    match &plan.base {
        Base::Swapped(swap) => files::is_there(planned.storage, &planned.dir.join(&swap.temp)),
        Base::OnDisk | Base::Deleted | Base::Prefix(_) => Ok(false),
    }
}

/// Returns the files that the session had, the present one first, given whether it may have none.
fn files_of<'a>(
    planned: PlannedFiles<'a>,
    plan: &'a Plan,
    may_be_absent: bool,
) -> impl Iterator<Item = Reference<'a>> {
    let now = Reference::of(&plan.base, &plan.appended, &plan.past).map(|of| Reference {
        is_present: true,
        ..of
    });
    let earlier = plan.past.earlier.iter().rev();
    let earlier = earlier.filter_map(move |earlier| match earlier {
        Earlier::Replaced { base, appended } => Reference::of(base, appended, &plan.past),
        Earlier::Kept(name) => {
            let kept = &planned.plans.ever_backup(name)?.plan;
            Reference::of(&kept.base, &kept.appended, &kept.past)
        }
    });
    now.into_iter().chain(earlier).map(move |of| Reference {
        begins_empty: of.begins_empty && may_be_absent,
        ..of
    })
}

/// CRC-32 of several beginnings of a file, all read at once: a session may have been taken back a
/// thousand times.
struct Sums(BTreeMap<u64, u32>);

impl Sums {
    fn of(file: &dyn StorageFile, len: u64, bases: impl Iterator<Item = u64>) -> io::Result<Self> {
        let lens: BTreeSet<u64> = bases.filter(|base| *base <= len).collect();
        let mut crc = crc32fast::Hasher::new();
        let mut chunk = vec![0; CHUNK.min(lens.last().copied().unwrap_or(0)) as usize];
        let (mut at, mut sums) = (0, BTreeMap::new());
        for len in lens {
            while at < len {
                let want = (len - at).min(CHUNK) as usize;
                file.read_exact_at(&mut chunk[..want], at)?;
                crc.update(&chunk[..want]);
                at += want as u64;
            }
            sums.insert(len, crc.clone().finalize());
        }
        Ok(Self(sums))
    }

    fn is(&self, len: u64, crc: u32) -> bool {
        self.0.get(&len) == Some(&crc)
    }
}

impl<'a> Reference<'a> {
    fn of(base: &'a Base, appended: &'a Run, past: &Past<Run>) -> Option<Self> {
        let (len, crc, copy) = match base {
            Base::OnDisk => past
                .first
                .as_ref()
                .map(|first| (first.len, first.crc, None))?,
            Base::Deleted => (0, 0, None),
            Base::Swapped(swap) => (swap.len, swap.crc, None),
            Base::Prefix(prefix) => (prefix.len, prefix.crc, Some(prefix)),
        };
        let lines = appended.as_ref().map_or(&[][..], |(_, lines)| lines);
        Some(Self {
            base: len,
            crc,
            copy,
            rest: match base {
                Base::Swapped(swap) if !swap.tail.is_empty() => [&swap.tail, lines].concat().into(),
                Base::OnDisk | Base::Deleted | Base::Swapped(_) | Base::Prefix(_) => lines.into(),
            },
            begins_empty: len == 0 && matches!(base, Base::OnDisk | Base::Deleted),
            is_present: false,
        })
    }

    /// Returns what a file is if it was this one, and the number of its bytes that are the same.
    fn fit(
        &self,
        planned: PlannedFiles<'_>,
        (path, file, len): (&Path, &dyn StorageFile, u64),
        sums: &Sums,
    ) -> Result<(FoundFile, u64)> {
        let wrap = |e| Error::io("read", path, e);
        let base = self.base;
        let sound = match self.copy {
            _ if sums.is(base, self.crc) => true,
            Some(prefix) => {
                // The file that it is a copy of may be gone.
                let of = planned.beginning(prefix)?;
                is_part(file, len.min(base), of.as_ref()).map_err(wrap)?
            }
            None => false,
        };
        if len < base {
            let found = if sound {
                FoundFile::AsLeft
            } else {
                FoundFile::Rewritten
            };
            return Ok((found, 0));
        }
        let more = len - base > self.rest.len() as u64;
        let after = whole_lines(file, base..len, self.rest.len()).map_err(wrap)?;
        let (whole, others) = walk(&after, &self.rest, more);
        let same = base + others.map_or(len - base, |at| at as u64);
        Ok(match (sound, others) {
            (true, None) => (FoundFile::AsLeft, same),
            (false, None) if whole > 0 => (FoundFile::Edited, same),
            (false, None) => (FoundFile::Doubtful, 0),
            // If a file shows nothing of ours, nothing tells that it is ours.
            (_, Some(_)) if whole > 0 || sound && (base > 0 || self.begins_empty) => {
                (FoundFile::Added { from: same, sound }, same)
            }
            _ => (FoundFile::Rewritten, 0),
        })
    }

    /// Returns true if the rest of a file that was found to be this one agrees with that.
    fn holds(&self, found: FoundFile, log: &Bytes, in_place: bool) -> io::Result<bool> {
        let base = self.base;
        // A file written anew may have our lines anywhere.
        let ours = LineMarks::of(&self.rest);
        Ok(match found {
            FoundFile::Added { from, sound } => {
                let others = tells(log, from..log.size(), |line| ours.tell(line))?;
                !others && (sound || in_place)
            }
            FoundFile::Edited | FoundFile::Doubtful if in_place => {
                !tells(log, 0..base, |line| ours.lines.contains(line))?
            }
            FoundFile::Edited | FoundFile::Doubtful => is_damaged_before(log, base)?,
            FoundFile::AsLeft | FoundFile::Rewritten | FoundFile::Gone => true,
        })
    }
}

/// Returns the first bytes of a range of a file, and the rest of the line that they end in, unless
/// no store writes one that long.
fn whole_lines(file: &dyn StorageFile, range: Range<u64>, least: usize) -> io::Result<Vec<u8>> {
    let left = |read: usize| range.end - range.start - read as u64;
    let mut bytes = vec![0; left(0).min(least as u64) as usize];
    file.read_exact_at(&mut bytes, range.start)?;
    let mut chunk = Vec::new();
    while bytes.last() != Some(&b'\n')
        && left(bytes.len()) > 0
        && bytes.len() < least + LONGEST as usize
    {
        chunk.resize(left(bytes.len()).min(CHUNK) as usize, 0);
        file.read_exact_at(&mut chunk, range.start + bytes.len() as u64)?;
        let end = memchr(b'\n', &chunk).map_or(chunk.len(), |lf| lf + 1);
        bytes.extend_from_slice(&chunk[..end]);
    }
    Ok(bytes)
}

/// Returns true if the first `len` bytes of a file are those of `copy`, or zeros where they did not
/// arrive. If nothing is left of the file that it is a copy of, zeros decide.
fn is_part(file: &dyn StorageFile, len: u64, copy: Option<&Bytes>) -> io::Result<bool> {
    let mut found = vec![0; CHUNK.min(len) as usize];
    let Some(copy) = copy else {
        file.read_exact_at(&mut found, 0)?;
        return Ok(found.is_empty() || found.contains(&0));
    };
    let mut ours = Vec::new();
    let mut at = 0;
    while at < len {
        let want = (len - at).min(CHUNK) as usize;
        file.read_exact_at(&mut found[..want], at)?;
        copy.read(at, want, &mut ours)?;
        if !arrived(&found[..want], &ours) {
            return Ok(false);
        }
        at += want as u64;
    }
    Ok(true)
}
