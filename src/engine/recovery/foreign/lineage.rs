//! Which of the files that a session had stands in its place, and where in it the lines
//! of others begin.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;

use memchr::memchr;

use super::super::bytes::{Bytes, CHUNK, crc_of};
use super::super::plan::{Base, Earlier, Past, Plan, Run};
use super::super::planned::Planned;
use crate::disk::files;
use crate::disk::session_file::{self, Decoded, Kind};
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
    base: Known,
    /// The lines that the journal puts after that.
    rest: Cow<'a, [u8]>,
}

enum Known {
    Sum {
        len: u64,
        crc: u32,
    },
    /// A copy that nobody synced: as much of it may be there as arrived. What it is a
    /// copy of may be gone.
    Copy {
        len: u64,
        crc: u32,
        of: Option<Bytes>,
    },
}

impl Known {
    fn sum(&self) -> (u64, u32) {
        match self {
            Self::Sum { len, crc } | Self::Copy { len, crc, .. } => (*len, *crc),
        }
    }
}

/// Finds out what `log` is, and whether it is the session's present file.
///
/// # Errors
/// If files cannot be read.
pub(super) fn find(
    planned: Planned<'_>,
    plan: &Plan,
    log: Option<&Bytes>,
) -> Result<(Found, bool)> {
    let Some((log, file)) = log.and_then(|log| Some((log, log.file.as_deref()?))) else {
        let found = if plan.may_be_absent() {
            Found::AsLeft
        } else {
            Found::Gone
        };
        return Ok((found, false));
    };
    let waits = waits_for_its_name(planned, plan)?;
    let in_place = !waits && matches!(plan.base, Base::OnDisk | Base::Swapped(_));
    // Of all that it may have been, the one of which most is there.
    let mut best = (Found::Rewritten, false);
    let mut most = None;
    let mut present = true;
    for reference in references(planned, plan) {
        if let Some(reference) = reference? {
            let fit = reference.fit(file, log.len);
            let (found, same) = fit.map_err(|e| Error::io("read", planned.dir, e))?;
            if found == Found::AsLeft {
                return Ok((found, present));
            }
            // What replaced it was made of what it was.
            let is_edited = !matches!(found, Found::Added { sound: true, .. });
            let damaged = match found {
                Found::Edited | Found::Doubtful => is_damaged_before(log, reference.base.sum().0),
                _ => Ok(false),
            };
            let damaged = damaged.map_err(|e| Error::io("read", planned.dir, e));
            let found = if is_edited && !(present && in_place) && !damaged? {
                Found::Rewritten
            } else {
                found
            };
            let possible = !(present && waits);
            if possible && most.is_none_or(|most| most < same) {
                most = Some(same);
                best = (found, present && found != Found::Rewritten);
            }
        }
        present = false;
    }
    Ok(best)
}

/// Whether the present file was prepared, and has not got the session file's name.
fn waits_for_its_name(planned: Planned<'_>, plan: &Plan) -> Result<bool> {
    match &plan.base {
        Base::Swapped(swap) => files::is_there(planned.storage, &planned.dir.join(&swap.temp)),
        Base::OnDisk | Base::Deleted | Base::Prefix(_) => Ok(false),
    }
}

/// The files that the session had, the present one first.
fn references<'a>(
    planned: Planned<'a>,
    plan: &'a Plan,
) -> impl Iterator<Item = Result<Option<Reference<'a>>>> {
    let now = (&plan.base, &plan.appended, &plan.past);
    let earlier = plan.past.earlier.iter().rev();
    let earlier = earlier.filter_map(move |earlier| match earlier {
        Earlier::Replaced { base, appended } => Some((base, appended, &plan.past)),
        Earlier::Kept(name) => {
            let kept = &planned.plans.ever_backup(name)?.plan;
            Some((&kept.base, &kept.appended, &kept.past))
        }
    });
    std::iter::once(now)
        .chain(earlier)
        .map(move |(base, appended, past)| reference(planned, base, appended, past))
}

fn reference<'a>(
    planned: Planned<'a>,
    base: &'a Base,
    appended: &'a Run,
    past: &'a Past<Run>,
) -> Result<Option<Reference<'a>>> {
    let lines = appended.as_ref().map_or(&[][..], |(_, lines)| lines);
    let (base, rest) = match base {
        Base::OnDisk => {
            let Some(first) = &past.first else {
                return Ok(None);
            };
            let (len, crc) = (first.len, first.crc);
            (Known::Sum { len, crc }, lines.into())
        }
        Base::Deleted => (Known::Sum { len: 0, crc: 0 }, lines.into()),
        Base::Swapped(swap) => {
            let (len, crc) = (swap.len, swap.crc);
            (Known::Sum { len, crc }, [&swap.tail, lines].concat().into())
        }
        Base::Prefix(prefix) => {
            let (len, crc) = (prefix.len, prefix.crc);
            let of = planned.beginning(prefix)?;
            (Known::Copy { len, crc, of }, lines.into())
        }
    };
    Ok(Some(Reference { base, rest }))
}

impl Reference<'_> {
    /// What a file is if it was this one, and how much of it is the same.
    fn fit(&self, file: &dyn StorageFile, len: u64) -> io::Result<(Found, u64)> {
        let (base, crc) = self.base.sum();
        let whole = len >= base && crc_of(file, base)? == crc;
        let sound = match &self.base {
            Known::Copy { of, .. } if !whole => is_part(file, len.min(base), of.as_ref())?,
            _ => whole,
        };
        if len < base {
            let found = if sound {
                Found::AsLeft
            } else {
                Found::Rewritten
            };
            return Ok((found, 0));
        }
        let mut after = vec![0; (len - base) as usize];
        file.read_exact_at(&mut after, base)?;
        let (whole, others) = walk(&after, &self.rest);
        let same = base + others.unwrap_or(after.len()) as u64;
        let found = match (sound, others) {
            (true, None) => Found::AsLeft,
            (false, None) if whole > 0 => Found::Edited,
            (false, None) => return Ok((Found::Doubtful, 0)),
            (_, Some(from)) if shares_lines(&after[from..], &self.rest) => Found::Rewritten,
            // Of a file that shows nothing of ours nothing tells that it is ours.
            (_, Some(_)) if whole > 0 || sound && base > 0 => Found::Added { from: same, sound },
            _ => return Ok((Found::Rewritten, 0)),
        };
        Ok((found, same))
    }
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

/// Whether these are our bytes, or zeros: what a power loss makes of blocks that did not
/// reach the disk.
pub(in crate::engine::recovery) fn arrived(found: &[u8], ours: &[u8]) -> bool {
    let same = |(&found, &ours): (&u8, &u8)| found == ours || found == 0;
    found.iter().zip(ours).all(same)
}

/// How many of our lines stand whole where they belong, and where the lines of others
/// begin, if there are any.
fn walk(found: &[u8], ours: &[u8]) -> (usize, Option<usize>) {
    let mut whole = 0;
    let mut at = 0;
    while at < ours.len() && at < found.len() {
        let end = memchr(b'\n', &ours[at..]).map_or(ours.len(), |lf| at + lf + 1);
        let line = &ours[at..end];
        let there = &found[at..end.min(found.len())];
        if there == line {
            whole += 1;
        } else if !arrived(there, line) && !is_damaged(there, line) {
            return (whole, Some(at + seam(&found[at..], line)));
        }
        at = end;
    }
    let others = found.len() > ours.len();
    (whole, others.then_some(ours.len()))
}

/// Whether lines that were synced do not decode: who edits a file leaves none.
fn is_damaged_before(log: &Bytes, base: u64) -> io::Result<bool> {
    let mut damaged = false;
    let synced = log.clone().cut(base);
    synced.for_each_line(|raw| {
        let line = without_zeros(raw.text);
        let first_lost = raw.begin == 0 && line.is_empty();
        damaged = damaged || first_lost || session_file::classify(line) == Kind::Corrupt;
    })?;
    Ok(damaged)
}

/// A line without what a power loss left of the one before or after it.
fn without_zeros(line: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| *byte != 0;
    let begin = line.iter().position(is_text).unwrap_or(line.len());
    let end = line
        .iter()
        .rposition(is_text)
        .map_or(begin, |last| last + 1);
    &line[begin..end]
}

/// Whether this is our line with damage in it, and no line of somebody else.
fn is_damaged(there: &[u8], line: &[u8]) -> bool {
    let ends = |bytes: &[u8]| memchr(b'\n', bytes).is_some_and(|lf| lf + 1 == bytes.len());
    there.len() == line.len()
        && ends(there)
        && session_file::classify(&there[..there.len() - 1]) == Kind::Corrupt
}

/// Where in a line the text of others begins, if they wrote after the part of ours that a
/// crash had left.
fn seam(found: &[u8], ours: &[u8]) -> usize {
    let line = &found[..memchr(b'\n', found).unwrap_or(found.len())];
    let decodes = |at: usize| session_file::classify(&line[at..]) != Kind::Corrupt;
    let same = |(found, ours): (&u8, &u8)| found == ours || *found == 0;
    let common = line.iter().zip(ours).take_while(|pair| same(*pair)).count();
    let mut starts = (0..=common.min(line.len())).filter(|&at| line.get(at) == Some(&b'{'));
    starts.find(|&at| decodes(at)).unwrap_or(0)
}

/// Whether lines of ours are among those of others, as they were or edited: then the file
/// was written anew.
fn shares_lines(others: &[u8], ours: &[u8]) -> bool {
    let others = Marks::of(others);
    let mut ours = session_file::lines(ours);
    ours.any(|(_, line)| others.tell(line))
}

/// The same, of lines that a whole session has.
///
/// # Errors
/// As the operating system reports them.
pub(super) fn shares(others: &[u8], ours: &Bytes) -> io::Result<bool> {
    let others = Marks::of(others);
    let mut found = false;
    ours.for_each_line(|raw| found = found || others.tell(raw.text))?;
    Ok(found)
}

/// What tells a line.
struct Marks<'a> {
    lines: HashSet<&'a [u8]>,
    /// When messages were made: who edits one leaves that alone.
    times: HashSet<String>,
}

impl<'a> Marks<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let lines = session_file::lines(bytes).map(|(_, line)| line);
        let lines: HashSet<_> = lines.filter(|line| !line.is_empty()).collect();
        Self {
            times: lines.iter().filter_map(|line| time_of(line)).collect(),
            lines,
        }
    }

    /// Whether this is one of the lines, or was.
    fn tell(&self, line: &[u8]) -> bool {
        let same_time = || time_of(line).is_some_and(|time| self.times.contains(&time));
        !line.is_empty() && (self.lines.contains(line) || same_time())
    }
}

fn time_of(line: &[u8]) -> Option<String> {
    match session_file::decode(line) {
        Decoded::Message(message) => message.created_at().map(str::to_owned),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
