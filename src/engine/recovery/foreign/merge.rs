//! Puts together a session after another program changed its files: theirs, ours, or both.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use sessionlog_core::session_file::{self, Decoded, Kind};

use super::super::bytes::Bytes;
use super::super::plan::count_lines;
use super::case::Case;
use crate::disk::files::extent;
use crate::disk::files::lines::Raw;

impl Case<'_> {
    /// Returns our lines, followed by the lines that they added, from `from` on, and did not hide
    /// again; and the number of hidden lines of all these.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(super) fn join(&self, from: Option<u64>) -> io::Result<(Bytes, i64)> {
        let mut ours = self.ours.clone();
        let mut skip = self.our_meta().map_or(0, |meta| meta.skip);
        let mut added = Vec::new();
        let (mut before, mut seen) = (0, self.log.clone());
        if let (Some(found), Some(from)) = (&self.log, from) {
            found.read(from, (found.size() - from) as usize, &mut added)?;
            let own = found.clone().cut(from);
            // A part of a line of ours, and the text they wrote after it, is one line of theirs.
            before = lines_of(&own)? - i64::from(own.would_glue(b"{")?);
            seen = Some(own);
        }
        match self.hides(count_lines(&added)) {
            HiddenByOthers::AsOurs => {}
            HiddenByOthers::Fewer(theirs) => skip = theirs,
            HiddenByOthers::First(first) => {
                if let Some(seen) = seen {
                    (ours, skip) = hide(ours, skip, &seen, first)?;
                }
                added = without_first(&added, first.saturating_sub(before));
            }
        }
        let end = ours.size();
        Ok((ours.continued(end, &added)?, skip))
    }

    /// Returns the lines they hide, given the number of lines they added.
    fn hides(&self, added: i64) -> HiddenByOthers {
        let Some(theirs) = self.their_meta() else {
            return HiddenByOthers::AsOurs;
        };
        let mut least = i64::MAX;
        let is_ours = self.plan.past.any_sidecar(Some(theirs), |said| {
            let Some(said) = said else { return false };
            least = least.min(said.skip);
            said.skip == theirs.skip && theirs.count.saturating_sub(said.count) == added
        });
        let first = theirs.skip.max(0);
        match least {
            _ if is_ours => HiddenByOthers::AsOurs,
            i64::MAX => HiddenByOthers::First(first),
            least if self.present && theirs.skip < least => HiddenByOthers::Fewer(first),
            _ => HiddenByOthers::First(first),
        }
    }
}

/// Hides those of our lines that are among the first `first` lines that they `saw`; returns our
/// lines, and the number that is hidden then. Lines that they never saw may stand between: those
/// stay visible, and lines that they hid after them are removed. Two equal lines are the same one
/// only if they stand in the same order: a program that writes the same line twice has not hidden
/// both.
fn hide(ours: Bytes, hidden: i64, saw: &Bytes, first: i64) -> io::Result<(Bytes, i64)> {
    let mut places: HashMap<u64, Vec<i64>> = HashMap::new();
    each_line(saw, |nth, raw| {
        places.entry(hash(raw.text)).or_default().push(nth);
    })?;
    let mut next = 0;
    let (mut skip, mut open) = (hidden, true);
    let (mut kept, mut drops) = (Vec::new(), false);
    each_line(&ours, |nth, raw| {
        let places = places.get(&hash(raw.text)).map_or(&[][..], Vec::as_slice);
        let place = places.get(places.partition_point(|place| *place < next));
        next = place.map_or(next, |place| place + 1);
        let goes = place.is_some_and(|place| *place < first);
        let live = nth >= hidden;
        open &= !live || goes;
        skip += i64::from(live && open);
        drops |= goes && !open;
        if !(goes && live) || open {
            kept.push((raw.begin, raw.len));
        }
    })?;
    let ours = if drops { only(&ours, &kept)? } else { ours };
    Ok((ours, skip))
}

/// Returns the lines at these offsets, with these lengths, also those too long to walk.
fn only(bytes: &Bytes, lines: &[(u64, u64)]) -> io::Result<Bytes> {
    let (mut all, mut line) = (Vec::new(), Vec::new());
    for &(begin, len) in lines {
        bytes.read(begin, len as usize, &mut line)?;
        all.extend_from_slice(&line);
        all.push(b'\n');
    }
    Ok(Bytes::of(all))
}

/// The lines that another program hides of a session.
enum HiddenByOthers {
    AsOurs,
    /// Lines that were hidden before are not any more.
    Fewer(i64),
    /// The first so many lines of the file found.
    First(i64),
}

/// Returns the number of lines of `bytes`.
///
/// # Errors
/// As the operating system reports them.
pub(super) fn lines_of(bytes: &Bytes) -> io::Result<i64> {
    let extent = extent::measure(bytes.file.as_deref(), bytes.len, &bytes.behind, 0)?;
    Ok(i64::try_from(extent.lines).unwrap_or(i64::MAX))
}

/// Lines of ours that a file does not show.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) all: i64,
    /// Those with a time that no line in the file has. A line in the file with that time is the
    /// same one, edited, though it may be an older one that was made at the same time. If an edited
    /// line were taken for one that never arrived, the edit would be hidden.
    pub(super) unedited: i64,
}

/// Counts those of our lines, without the first `skip`, that are not among the lines of a file; the
/// first so many lines of the file are hidden.
///
/// # Errors
/// As the operating system reports them.
pub(super) fn missing(
    found: Option<(&Bytes, i64)>,
    ours: &Bytes,
    skip: i64,
) -> io::Result<Missing> {
    let (mut there, mut times) = (HashMap::new(), HashMap::new());
    if let Some((found, hidden)) = found {
        each_line(found, |nth, raw| {
            if nth >= hidden {
                let (message, time) = message_hashes(raw.text);
                *there.entry(message).or_default() += 1;
                *times.entry(time).or_default() += 1;
            }
        })?;
    }
    let mut missing = Vec::new();
    each_line(ours, |nth, raw| {
        if session_file::classify(raw.text) == Kind::Transient {
            return;
        }
        let (message, time) = message_hashes(raw.text);
        // A hidden line that is there is not another one, edited, either.
        if there.get(&message).is_some_and(|left| *left > 0) {
            take(&mut times, time);
        }
        if nth >= skip && !take(&mut there, message) {
            missing.push(time);
        }
    })?;
    let is_new = |time: &&u64| !take(&mut times, **time);
    let unedited = missing.iter().filter(is_new).count();
    let [all, unedited] = [missing.len(), unedited].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    Ok(Missing { all, unedited })
}

/// Takes one of those that are left; returns true if there was one.
fn take(left: &mut HashMap<u64, u64>, what: u64) -> bool {
    let left = left.get_mut(&what).filter(|left| **left > 0);
    left.map(|left| *left -= 1).is_some()
}

/// Calls `visit` with every line that `skip` counts, and its number.
fn each_line(bytes: &Bytes, mut visit: impl FnMut(i64, Raw<'_>)) -> io::Result<()> {
    let mut nth = 0;
    bytes.for_each_line(|raw| {
        if session_file::classify(raw.text) != Kind::Blank {
            visit(nth, raw);
            nth += 1;
        }
    })
}

fn without_first(lines: &[u8], count: i64) -> Vec<u8> {
    let mut nth = 0;
    let mut lines_left = session_file::lines(lines).filter(|(_, line)| {
        let counts = session_file::classify(line) != Kind::Blank;
        nth += i64::from(counts);
        counts && nth > count
    });
    let at = lines_left.next().map_or(lines.len(), |(at, _)| at);
    drop(lines_left);
    lines[at..].to_vec()
}

fn hash(line: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    line.hash(&mut hasher);
    hasher.finish()
}

/// Returns a hash that is the same for all ways of writing one message, because a program that
/// rewrites a file writes its lines anew; and a hash that is the same for all messages of one time.
/// A message without a time has its own.
fn message_hashes(line: &[u8]) -> (u64, u64) {
    let Decoded::Message(message) = session_file::decode(line) else {
        return (hash(line), hash(line));
    };
    let own = hash(&session_file::encode(&message, None));
    let time = message.created_at().map(|time| hash(time.as_bytes()));
    (own, time.unwrap_or(own))
}

#[cfg(test)]
mod tests;
