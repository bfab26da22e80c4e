//! Which of the files that a session had stands in its place, and where in it the lines
//! of others begin.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::Path;

use memchr::memchr;

use super::super::bytes::{Bytes, CHUNK};
use super::super::plan::{Base, Earlier, Past, Plan, Prefix, Run};
use super::super::planned::Planned;
use super::traces::{Marks, arrived, is_damaged_before, tells, walk};
use crate::disk::files;
use crate::disk::files::lines::LONGEST;
use crate::error::{Error, Result};
use crate::ground::storage::StorageFile;

/// What was found in a session file's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// A file that the session had, written as far as a crash may have left it.
    AsLeft,
    /// The same, and lines of others after ours, from here on. If it is not `sound`, bytes
    /// before the journal's lines were changed, too.
    Added {
        from: u64,
        sound: bool,
    },
    /// The same, with bytes before the journal's lines changed in place.
    Edited,
    /// So may it be, but nothing of the journal's lines is there to tell.
    Doubtful,
    Rewritten,
    Gone,
}

/// A file that the session had, as far as the journal knows it.
struct Reference<'a> {
    base: Known<'a>,
    /// The lines that the journal puts after that.
    rest: Cow<'a, [u8]>,
    /// Whether the session had no line before the journal's, and may have had no file since:
    /// others add their first line as we do.
    begins_empty: bool,
}

#[derive(Clone, Copy)]
enum Known<'a> {
    Sum {
        len: u64,
        crc: u32,
    },
    /// A copy that nobody synced: as much of it may be there as arrived.
    Copy(&'a Prefix),
}

impl Known<'_> {
    fn sum(self) -> (u64, u32) {
        match self {
            Self::Sum { len, crc } => (len, crc),
            Self::Copy(prefix) => (prefix.len, prefix.crc),
        }
    }
}

/// A reference that a file may be, and how much of it is the same.
struct Fit<'a> {
    found: Found,
    same: u64,
    of: Reference<'a>,
}

/// Finds out what `log` is, and whether it is the session's present file.
///
/// # Errors
/// If files cannot be read.
pub(super) fn find(
    planned: Planned<'_>,
    plan: &Plan,
    (path, log): (&Path, Option<&Bytes>),
) -> Result<(Found, bool)> {
    let waits = waits_for_its_name(planned, plan)?;
    let Some((log, file)) = log.and_then(|log| Some((log, log.file.as_deref()?))) else {
        let found = if plan.may_be_absent(waits) {
            Found::AsLeft
        } else {
            Found::Gone
        };
        return Ok((found, false));
    };
    let in_place = !waits && matches!(plan.base, Base::OnDisk | Base::Swapped(_));
    let wrap = |e| Error::io("read", path, e);
    let bases = files_of(planned, plan).filter_map(|(base, _, past)| known(base, past));
    let sums = Sums::of(file, log.len, bases.map(|base| base.sum().0)).map_err(wrap)?;
    // Of all that it may have been, the one of which most is there.
    let mut best: Option<(Fit<'_>, bool)> = None;
    for (nth, (base, appended, past)) in files_of(planned, plan).enumerate() {
        let Some(sum) = known(base, past) else {
            continue;
        };
        let of = Reference {
            base: sum,
            rest: lines_after(base, appended),
            begins_empty: plan.may_be_absent(waits)
                && matches!(base, Base::OnDisk | Base::Deleted)
                && sum.sum().0 == 0,
        };
        let present = nth == 0;
        let (found, same) = of.fit(planned, (path, file, log.len), &sums)?;
        if found == Found::AsLeft {
            return Ok((Found::AsLeft, present));
        }
        let possible = found != Found::Rewritten && !(present && waits);
        if possible && best.as_ref().is_none_or(|(best, _)| best.same < same) {
            best = Some((Fit { found, same, of }, present));
        }
    }
    let Some((fit, present)) = best else {
        return Ok((Found::Rewritten, false));
    };
    let holds = fit.holds(log, present && in_place).map_err(wrap)?;
    let found = if holds { fit.found } else { Found::Rewritten };
    Ok((found, present && found != Found::Rewritten))
}

/// Whether the present file was prepared, and has not got the session file's name.
pub(super) fn waits_for_its_name(planned: Planned<'_>, plan: &Plan) -> Result<bool> {
    match &plan.base {
        Base::Swapped(swap) => files::is_there(planned.storage, &planned.dir.join(&swap.temp)),
        Base::OnDisk | Base::Deleted | Base::Prefix(_) => Ok(false),
    }
}

/// The files that the session had, the present one first.
fn files_of<'a>(
    planned: Planned<'a>,
    plan: &'a Plan,
) -> impl Iterator<Item = (&'a Base, &'a Run, &'a Past<Run>)> {
    let now = (&plan.base, &plan.appended, &plan.past);
    let earlier = plan.past.earlier.iter().rev();
    let earlier = earlier.filter_map(move |earlier| match earlier {
        Earlier::Replaced { base, appended } => Some((base, appended, &plan.past)),
        Earlier::Kept(name) => {
            let kept = &planned.plans.ever_backup(name)?.plan;
            Some((&kept.base, &kept.appended, &kept.past))
        }
    });
    std::iter::once(now).chain(earlier)
}

fn known<'a>(base: &'a Base, past: &Past<Run>) -> Option<Known<'a>> {
    Some(match base {
        Base::OnDisk => {
            let first = past.first.as_ref()?;
            let (len, crc) = (first.len, first.crc);
            Known::Sum { len, crc }
        }
        Base::Deleted => Known::Sum { len: 0, crc: 0 },
        Base::Swapped(swap) => {
            let (len, crc) = (swap.len, swap.crc);
            Known::Sum { len, crc }
        }
        Base::Prefix(prefix) => Known::Copy(prefix),
    })
}

fn lines_after<'a>(base: &'a Base, appended: &'a Run) -> Cow<'a, [u8]> {
    let lines = appended.as_ref().map_or(&[][..], |(_, lines)| lines);
    match base {
        Base::Swapped(swap) if !swap.tail.is_empty() => [&swap.tail, lines].concat().into(),
        Base::OnDisk | Base::Deleted | Base::Swapped(_) | Base::Prefix(_) => lines.into(),
    }
}

/// CRC-32 of the beginnings of a file, all read at once: a session may have been taken
/// back a thousand times.
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

impl Reference<'_> {
    /// What a file is if it was this one, and how much of it is the same.
    fn fit(
        &self,
        planned: Planned<'_>,
        (path, file, len): (&Path, &dyn StorageFile, u64),
        sums: &Sums,
    ) -> Result<(Found, u64)> {
        let wrap = |e| Error::io("read", path, e);
        let (base, crc) = self.base.sum();
        let sound = match self.base {
            _ if sums.is(base, crc) => true,
            Known::Copy(prefix) => {
                // What it is a copy of may be gone.
                let of = planned.beginning(prefix)?;
                is_part(file, len.min(base), of.as_ref()).map_err(wrap)?
            }
            Known::Sum { .. } => false,
        };
        if len < base {
            let found = if sound {
                Found::AsLeft
            } else {
                Found::Rewritten
            };
            return Ok((found, 0));
        }
        let more = len - base > self.rest.len() as u64;
        let after = whole_lines(file, base..len, self.rest.len()).map_err(wrap)?;
        let (whole, others) = walk(&after, &self.rest, more);
        let same = base + others.map_or(len - base, |at| at as u64);
        Ok(match (sound, others) {
            (true, None) => (Found::AsLeft, same),
            (false, None) if whole > 0 => (Found::Edited, same),
            (false, None) => (Found::Doubtful, 0),
            // Of a file that shows nothing of ours nothing tells that it is ours.
            (_, Some(_)) if whole > 0 || sound && (base > 0 || self.begins_empty) => {
                (Found::Added { from: same, sound }, same)
            }
            _ => (Found::Rewritten, 0),
        })
    }
}

impl Fit<'_> {
    /// Whether the rest of the file speaks for it, too.
    fn holds(&self, log: &Bytes, in_place: bool) -> io::Result<bool> {
        let base = self.of.base.sum().0;
        // A file written anew may have our lines anywhere.
        let ours = Marks::of(&self.of.rest);
        Ok(match self.found {
            Found::Added { from, sound } => {
                let others = tells(log, from..log.size(), |line| ours.tell(line))?;
                !others && (sound || in_place)
            }
            Found::Edited | Found::Doubtful if in_place => {
                !tells(log, 0..base, |line| ours.lines.contains(line))?
            }
            Found::Edited | Found::Doubtful => is_damaged_before(log, base)?,
            Found::AsLeft | Found::Rewritten | Found::Gone => true,
        })
    }
}

/// The first bytes of a range of a file, and the rest of the line that those end in, unless
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

/// Whether the first `len` bytes of a file are those of `copy`, or zeros where they
/// did not arrive. Of what it is a copy of nothing may be left: then zeros tell.
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
