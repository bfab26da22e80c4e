//! What a session is after another program changed its files: theirs, ours, or both.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use super::super::bytes::Bytes;
use super::super::plan::{Plan, count_lines};
use super::traces::Marks;
use crate::disk::files::extent;
use crate::disk::files::lines::Raw;
use crate::disk::session_file::{self, Decoded, Kind, SessionMeta};

/// A session of which both have lines.
pub(super) struct Both<'a> {
    pub(super) plan: &'a Plan,
    /// What the journal makes of it, and how many lines of that are hidden.
    pub(super) ours: Bytes,
    pub(super) skip: i64,
    /// The file that was found, and where the lines of others begin in it.
    pub(super) found: Option<&'a Bytes>,
    pub(super) from: Option<u64>,
    /// Whether that is the session's present file, whose lines have the numbers that ours have.
    pub(super) present: bool,
    /// The sidecar that was found, if another program wrote it.
    pub(super) theirs: Option<&'a SessionMeta>,
}

impl Both<'_> {
    /// Our lines, then those that they added and did not hide again; and how many lines
    /// of all that are hidden.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(super) fn join(mut self) -> io::Result<(Bytes, i64)> {
        let mut added = Vec::new();
        let (mut before, mut seen) = (0, self.found.cloned());
        if let (Some(found), Some(from)) = (self.found, self.from) {
            found.read(from, (found.size() - from) as usize, &mut added)?;
            let ours = found.clone().cut(from);
            // A part of a line of ours, and what they wrote after it, is one line of theirs.
            before = lines_of(&ours)? - i64::from(ours.would_glue(b"{")?);
            seen = Some(ours);
        }
        let hidden = self.hidden(count_lines(&added));
        let mut skip = self.skip;
        match hidden {
            Hidden::AsOurs => {}
            Hidden::Fewer(theirs) => skip = theirs,
            Hidden::First(theirs) => {
                skip = self.hide(seen.as_ref(), theirs)?;
                added = without_first(&added, theirs.saturating_sub(before));
            }
        }
        let end = self.ours.size();
        self.ours = self.ours.continued(end, &added)?;
        Ok((self.ours, skip))
    }

    fn hidden(&self, added: i64) -> Hidden {
        let Some(theirs) = self.theirs else {
            return Hidden::AsOurs;
        };
        let mut least = i64::MAX;
        let is_ours = self.plan.past.any_sidecar(Some(theirs), |said| {
            let Some(said) = said else { return false };
            least = least.min(said.skip);
            said.skip == theirs.skip && theirs.count.saturating_sub(said.count) == added
        });
        let first = theirs.skip.max(0);
        match least {
            _ if is_ours => Hidden::AsOurs,
            i64::MAX => Hidden::First(first),
            least if self.present && theirs.skip < least => Hidden::Fewer(first),
            _ => Hidden::First(first),
        }
    }

    /// Hides, of our lines, those that are among the first so many they `saw`. Some
    /// that they never saw may stand between: those stay visible, and what they hid after
    /// them goes. A line of ours is one that they saw only if the two stand in the same
    /// order: who writes the same twice has not hidden both.
    fn hide(&mut self, saw: Option<&Bytes>, first: i64) -> io::Result<i64> {
        let Some(saw) = saw else {
            return Ok(self.skip);
        };
        let mut places: HashMap<u64, Vec<i64>> = HashMap::new();
        each_line(saw, |nth, raw| {
            places.entry(hash(raw.text)).or_default().push(nth);
        })?;
        let mut next = 0;
        let (mut skip, mut open) = (self.skip, true);
        let (mut kept, mut drops) = (Vec::new(), false);
        each_line(&self.ours, |nth, raw| {
            let places = places.get(&hash(raw.text)).map_or(&[][..], Vec::as_slice);
            let place = places.get(places.partition_point(|place| *place < next));
            next = place.map_or(next, |place| place + 1);
            let goes = place.is_some_and(|place| *place < first);
            let live = nth >= self.skip;
            open &= !live || goes;
            skip += i64::from(live && open);
            drops |= goes && !open;
            if !(goes && live) || open {
                kept.push((raw.begin, raw.len));
            }
        })?;
        if drops {
            self.ours = only(&self.ours, &kept)?;
        }
        Ok(skip)
    }
}

/// The lines that stand at these offsets, with these lengths, also those too long to walk.
fn only(bytes: &Bytes, lines: &[(u64, u64)]) -> io::Result<Bytes> {
    let (mut all, mut line) = (Vec::new(), Vec::new());
    for &(begin, len) in lines {
        bytes.read(begin, len as usize, &mut line)?;
        all.extend_from_slice(&line);
        all.push(b'\n');
    }
    Ok(Bytes::of(all))
}

/// What another program hides of a session.
enum Hidden {
    AsOurs,
    /// Lines that were hidden before are not any more.
    Fewer(i64),
    /// So many lines of the file found.
    First(i64),
}

/// How many lines `bytes` has.
///
/// # Errors
/// As the operating system reports them.
pub(super) fn lines_of(bytes: &Bytes) -> io::Result<i64> {
    let extent = extent::measure(bytes.file.as_deref(), bytes.len, &bytes.behind, 0)?;
    Ok(i64::try_from(extent.lines).unwrap_or(i64::MAX))
}

/// How many of these lines, without the `first` so many, are not in `found`, neither as they
/// were nor edited. A line that is older and bears the time of one of these counts as that
/// one, edited: then a line less is hidden. Were an edited line taken for one that never
/// arrived, the edit would be hidden.
///
/// # Errors
/// As the operating system reports them.
pub(super) fn missing(found: &Bytes, lines: &[u8], first: i64) -> io::Result<i64> {
    let marks = Marks::of(lines);
    let mut there = HashSet::new();
    // Lines that bear the time of one of ours: as many as these may be ours, edited.
    let mut edited: HashMap<String, i64> = HashMap::new();
    each_line(found, |_, raw| {
        if marks.lines.contains(raw.text) {
            there.insert(hash(raw.text));
        } else if let Some(time) = marks.time(raw.text) {
            *edited.entry(time).or_default() += 1;
        }
    })?;
    let mut missing = 0;
    each_line(&Bytes::of(lines.to_vec()), |nth, raw| {
        if there.contains(&hash(raw.text)) {
            return;
        }
        let edited = marks.time(raw.text).and_then(|time| edited.get_mut(&time));
        match edited {
            Some(left) if *left > 0 => *left -= 1,
            _ => missing += i64::from(nth >= first),
        }
    })?;
    Ok(missing)
}

/// Whether lines of ours that nobody truncated are not among those of a file, of which so
/// many are hidden.
///
/// # Errors
/// As the operating system reports them.
pub(super) fn misses(found: Option<(&Bytes, i64)>, ours: &Bytes, skip: i64) -> io::Result<bool> {
    let mut there: HashMap<u64, u64> = HashMap::new();
    if let Some((found, hidden)) = found {
        each_line(found, |nth, raw| {
            if nth >= hidden {
                *there.entry(message_hash(raw.text)).or_default() += 1;
            }
        })?;
    }
    let mut missing = false;
    each_line(ours, |nth, raw| {
        if nth < skip || session_file::classify(raw.text) == Kind::Transient {
            return;
        }
        match there.get_mut(&message_hash(raw.text)) {
            Some(left) if *left > 0 => *left -= 1,
            _ => missing = true,
        }
    })?;
    Ok(missing)
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

/// The same for all ways of writing one message: who rewrites a file writes its lines anew.
fn message_hash(line: &[u8]) -> u64 {
    match session_file::decode(line) {
        Decoded::Message(message) => hash(&session_file::encode(&message, None)),
        _ => hash(line),
    }
}

#[cfg(test)]
mod tests;
