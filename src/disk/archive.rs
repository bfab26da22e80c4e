//! The archive: lines that compactions dropped, compressed, for people to `zgrep` as well.
//!
//! A part is a file in the format of gzip, of one member after the other. Each member has
//! whole lines that one compaction dropped, in their order, and the session's key as its
//! comment. Its name says which session and month it is of, and
//!
//! * which members it has, of all that the session's archive has, from 1 on. A part that
//!   grows is written anew under another name; if a crash leaves both, the one with more
//!   members has all that the other has;
//! * until the compaction is done that made it or made it grow, how many bytes of the session
//!   file are archived, and their checksum: if it is cut short, the next one does not add
//!   them again.

use std::io::{self, Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::{Compression, GzBuilder};

/// What a part's file name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The session's file name without extension.
    pub(crate) stem: String,
    /// When its lines were dropped: year and month.
    pub(crate) month: String,
    /// The first and the last of its members.
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) under_way: Option<UnderWay>,
}

/// What a compaction that is not done has archived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnderWay {
    /// Up to where in the session file.
    pub(crate) upto: u64,
    /// The CRC-32 of the file up to there.
    pub(crate) check: u32,
}

/// What names of parts end in.
const END: &str = ".jsonl.gz";

/// What names of files end in that are not in their place.
const HIDDEN: &str = ".tmp";

impl Part {
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

    /// What a file name says, if it is a part's.
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

    /// The file name of one that is to be a session's whose new file is called `temp`, until
    /// that is its file.
    pub(crate) fn hidden(&self, temp: &str) -> String {
        let Self {
            month, first, last, ..
        } = self;
        let temp = temp.strip_suffix(HIDDEN).unwrap_or(temp);
        format!("{temp}-{month}.{first}-{last}{HIDDEN}")
    }

    /// What such a name says, of the session `stem`.
    pub(crate) fn of_hidden(text: &str, temp: &str, stem: &str) -> Option<Self> {
        let rest = text.strip_prefix(temp.strip_suffix(HIDDEN)?)?;
        let rest = rest.strip_prefix('-')?.strip_suffix(HIDDEN)?;
        Self::parse(&format!("{stem}.{rest}{END}"))
    }

    /// Whether it has all that another part of the session has, which it took the place of.
    pub(crate) fn replaces(&self, other: &Self) -> bool {
        let is_renamed = self.under_way.is_none() && other.under_way.is_some();
        let is_longer = self.last > other.last || self.last == other.last && is_renamed;
        self.first == other.first && is_longer
    }
}

/// Without those that others have, in the order of their lines.
pub(crate) fn in_order(mut parts: Vec<Part>) -> Vec<Part> {
    let all = parts.clone();
    parts.retain(|part| !all.iter().any(|other| other.replaces(part)));
    parts.sort_unstable_by_key(|part| part.first);
    parts
}

/// A member with these lines of a session.
///
/// # Errors
/// None that are known: it is made in memory.
pub(crate) fn encode(key: &str, lines: &[u8]) -> io::Result<Vec<u8>> {
    let builder = GzBuilder::new().comment(key);
    let mut encoder = builder.write(Vec::new(), Compression::default());
    encoder.write_all(lines)?;
    encoder.finish()
}

/// Whose lines a part has, by its first member.
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

    fn part(first: u64, last: u64) -> Part {
        Part {
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
        assert_eq!(Part::parse(&done.to_text()), Some(done.clone()));
        let under_way = Some(UnderWay {
            upto: 4711,
            check: 0x00ab_cdef,
        });
        let grown = Part { under_way, ..done };
        let text = "slack_T1.2-x.2026-11.3-12-1267-00abcdef.jsonl.gz";
        assert_eq!(grown.to_text(), text);
        assert_eq!(Part::parse(text), Some(grown));
        for other in [
            "cli.jsonl.gz",
            "slack.2026-11.3-12-1267.jsonl.gz",
            "slack.2026-11.03-12-1267-00abcdef.jsonl.gz",
            "slack.2026-11.3-12-1267-00abcdef.jsonl",
        ] {
            assert_eq!(Part::parse(other), None, "{other}");
        }
    }

    #[test]
    fn of_two_parts_the_one_with_more_members_counts() {
        let parts = vec![part(4, 9), part(1, 3), part(4, 8), part(1, 2)];
        assert_eq!(in_order(parts), [part(1, 3), part(4, 9)]);
        // A copy may be made of both names of one.
        let under_way = Some(UnderWay { upto: 1, check: 2 });
        let before = Part {
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
