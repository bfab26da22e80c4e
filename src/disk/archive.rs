//! The archive: lines that compactions dropped, compressed, so that people can also `zgrep` them.
//!
//! A part is a file in gzip format, with one member after the other. Each member has whole lines
//! that one compaction dropped, in their order, and the session's key as its comment. The part's
//! name has its session and month, and
//!
//! * the range of its members among those of the session's archive, counted from 1. A part that
//!   grows is written anew under another name; if a crash leaves both, the one with more members
//!   contains the other;
//! * until the compaction that made or extended it is done: the number of archived bytes of the
//!   session file, and their checksum. If the compaction is cut short, the next one does not add
//!   them again.

use std::io::{self, Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::{Compression, GzBuilder};

/// The contents of a part's file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArchivePart {
    /// The session's file name without extension.
    pub(crate) stem: String,
    /// The year and month in which its lines were dropped.
    pub(crate) month: String,
    /// The first and the last of its members.
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) under_way: Option<UnderWay>,
}

/// The bytes archived by a compaction that is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnderWay {
    /// The end of the archived bytes in the session file.
    pub(crate) upto: u64,
    /// The CRC-32 of the file up to there.
    pub(crate) check: u32,
}

/// The extension of parts.
const END: &str = ".jsonl.gz";

/// The extension of files that are not yet in place.
const HIDDEN: &str = ".tmp";

impl ArchivePart {
    /// The file name.
    pub(crate) fn to_text(&self) -> String {
        let Self {
            stem,
            month,
            first,
            last,
            under_way,
        } = self;
        let under_way = under_way.map(|UnderWay { upto, check }| format!("-{upto:x}-{check:08x}"));
        let under_way = under_way.unwrap_or_default();
        format!("{stem}.{month}.{first}-{last}{under_way}{END}")
    }

    /// Parses a file name; `None` if it is not a part's.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (rest, numbers) = text.strip_suffix(END)?.rsplit_once('.')?;
        let (stem, month) = rest.rsplit_once('.')?;
        let mut numbers = numbers.split('-');
        let mut part = Self {
            stem: stem.into(),
            month: month.into(),
            first: numbers.next()?.parse().ok()?,
            last: numbers.next()?.parse().ok()?,
            under_way: None,
        };
        if let Some(upto) = numbers.next() {
            part.under_way = Some(UnderWay {
                upto: u64::from_str_radix(upto, 16).ok()?,
                check: u32::from_str_radix(numbers.next()?, 16).ok()?,
            });
        }
        (numbers.next().is_none() && part.to_text() == text).then_some(part)
    }

    /// The hidden file name of a part for a session with a new file called `temp`. It is used
    /// until that file is in place.
    pub(crate) fn hidden(&self, temp: &str) -> String {
        let Self {
            month, first, last, ..
        } = self;
        let temp = temp.strip_suffix(HIDDEN).unwrap_or(temp);
        format!("{temp}-{month}.{first}-{last}{HIDDEN}")
    }

    /// Parses such a name, for the session `stem`.
    pub(crate) fn of_hidden(text: &str, temp: &str, stem: &str) -> Option<Self> {
        let rest = text.strip_prefix(temp.strip_suffix(HIDDEN)?)?;
        let rest = rest.strip_prefix('-')?.strip_suffix(HIDDEN)?;
        Self::parse(&format!("{stem}.{rest}{END}"))
    }

    /// True if this part replaced the other, and so contains it.
    pub(crate) fn replaces(&self, other: &Self) -> bool {
        let is_renamed = self.under_way.is_none() && other.under_way.is_some();
        let is_longer = self.last > other.last || self.last == other.last && is_renamed;
        self.first == other.first && is_longer
    }
}

/// Removes the parts that others contain, and sorts by the order of lines.
pub(crate) fn in_order(mut parts: Vec<ArchivePart>) -> Vec<ArchivePart> {
    let all = parts.clone();
    parts.retain(|part| !all.iter().any(|other| other.replaces(part)));
    parts.sort_unstable_by_key(|part| part.first);
    parts
}

/// Encodes lines of a session as a member.
///
/// # Errors
/// No known ones: it is made in memory.
pub(crate) fn encode(key: &str, lines: &[u8]) -> io::Result<Vec<u8>> {
    let builder = GzBuilder::new().comment(key);
    let mut encoder = builder.write(Vec::new(), Compression::default());
    encoder.write_all(lines)?;
    encoder.finish()
}

/// True if a part's first member has this key as its session.
pub(crate) fn is_of(key: &str, part: &[u8]) -> bool {
    let decoder = MultiGzDecoder::new(part);
    let comment = decoder.header().and_then(flate2::GzHeader::comment);
    comment == Some(key.as_bytes())
}

/// The lines of a part.
///
/// # Errors
/// If it is damaged.
pub(crate) fn decode(part: &[u8]) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    MultiGzDecoder::new(part).read_to_end(&mut lines)?;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(first: u64, last: u64) -> ArchivePart {
        ArchivePart {
            stem: String::from("slack_T1.2-x"),
            month: String::from("2026-11"),
            first,
            last,
            under_way: None,
        }
    }

    #[test]
    fn a_part_is_told_by_its_name_and_nothing_else_is_one() {
        let done = part(3, 12);
        assert_eq!(done.to_text(), "slack_T1.2-x.2026-11.3-12.jsonl.gz");
        assert_eq!(ArchivePart::parse(&done.to_text()), Some(done.clone()));
        let under_way = Some(UnderWay {
            upto: 4711,
            check: 0x00ab_cdef,
        });
        let grown = ArchivePart { under_way, ..done };
        let text = "slack_T1.2-x.2026-11.3-12-1267-00abcdef.jsonl.gz";
        assert_eq!(grown.to_text(), text);
        assert_eq!(ArchivePart::parse(text), Some(grown));
        for other in [
            "cli.jsonl.gz",
            "slack.2026-11.3-12-1267.jsonl.gz",
            "slack.2026-11.03-12-1267-00abcdef.jsonl.gz",
            "slack.2026-11.3-12-1267-00abcdef.jsonl",
        ] {
            assert_eq!(ArchivePart::parse(other), None, "{other}");
        }
    }

    #[test]
    fn of_two_parts_the_one_with_more_members_counts() {
        let parts = vec![part(4, 9), part(1, 3), part(4, 8), part(1, 2)];
        assert_eq!(in_order(parts), [part(1, 3), part(4, 9)]);
        // A copy may contain both names of one part.
        let under_way = Some(UnderWay { upto: 1, check: 2 });
        let before = ArchivePart {
            under_way,
            ..part(4, 9)
        };
        assert_eq!(in_order(vec![before, part(4, 9)]), [part(4, 9)]);
    }

    #[test]
    fn members_are_read_one_after_the_other_and_damage_is_told() {
        let mut bytes = encode("a/ä", b"one\n").unwrap();
        bytes.extend(encode("a/ä", b"two\n").unwrap());
        assert_eq!(decode(&bytes).unwrap(), b"one\ntwo\n");
        assert!(is_of("a/ä", &bytes) && !is_of("a", &bytes) && !is_of("a", b"{}"));
        let end = bytes.len() - 6;
        bytes[end] ^= 1;
        assert!(decode(&bytes).is_err());
        assert!(decode(&bytes[..end]).is_err());
    }
}
