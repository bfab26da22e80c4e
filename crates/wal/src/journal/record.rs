//! Journal records: the encoded form of a change to a session.
//!
//! ```text
//! record   = length u32 · checksum u32 · kind u8 · body
//! batch    = record* · commit record
//! number   = LEB128;   signed is a number, its sign in the lowest bit (zigzag)
//! bytes    = length number · the bytes;   str is UTF-8 bytes
//! time     = 0 · nanoseconds since 1970 i64; or length and one number · UTF-8
//!
//! kind 1, append      stem str · generation number · offset number · CRC-32 u32 of the
//!                     bytes before it · meta · the lines, to the record's end
//! kind 2, meta        stem str · generation number · before · sidecar bytes
//! kind 3, swap        stem str · generation number · before · sidecar bytes
//!                     · hidden name str · base length number · base CRC-32 u32 · tail bytes
//! kind 4, delete      stem str · generation number · before
//! kind 5, checkpoint  sequence number · clean u8
//! kind 6, commit      magic "slCOMMIT" · sequence u64 · batch bytes u32 · durable u64
//! kind 7, rebase      stem str · generation number · before · sidecar bytes
//!                     · backup it begins as str · length number · CRC-32 u32
//!                     · second name str · backup made str
//! kind 8, append once  lines str that say which messages they are (`disk/files/once.rs`)
//!                     · the fields of kind 1
//! ```
//!
//! `record/meta.rs` defines `before` and `meta`.
//!
//! Numbers of a fixed size are little-endian. `length` counts `kind` and `body`. The checksum is
//! CRC-32 over length, kind and body, started from the segment's seed, so that a record
//! left behind in a recycled segment never passes for a new one. Every record is an
//! absolute redo: applying it twice, or to files that already hold it, gives the same
//! result.
//!
//! A commit's `sequence` goes up by one per batch, across segments. Its `durable` is the
//! newest batch known to be synced when the commit was written. A checkpoint's `sequence`
//! is the last batch it covers. Recovery goes by the order of batches; the generation is
//! there for people.
//!
//! Every record says what the session's files were before it. For the first record after a
//! checkpoint, that is what lies on disk, unless another program changed it; without this, recovery
//! would replay over the changes of other programs.

mod fields;
mod meta;

use std::ops::Range;

use bytes::BufMut;

pub use fields::Time;
use fields::{FieldReader, put_bytes, put_number, put_str, put_u32, put_u64};
pub use meta::{MetaState, Prior};
use meta::{before, meta, put_before, put_meta};

/// Bytes before `kind`.
pub const HEAD: usize = 8;

/// Is in every commit record, so that a scan can find the next one after damage of any length.
pub(crate) const COMMIT_MAGIC: [u8; 8] = *b"slCOMMIT";

/// Length of a commit record, bytes: its kind, the magic, and two numbers of eight
/// bytes and one of four.
pub const COMMIT_LEN: usize = HEAD + 1 + COMMIT_MAGIC.len() + 8 + 4 + 8;

const APPEND: u8 = 1;
const META: u8 = 2;
const SWAP: u8 = 3;
const DELETE: u8 = 4;
const CHECKPOINT: u8 = 5;
const COMMIT: u8 = 6;
const REBASE: u8 = 7;
const APPEND_ONCE: u8 = 8;

/// One change to one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the module says what the fields are")]
pub enum Record<'a> {
    /// `bytes` stand at `offset` of the session file, whose bytes before that have the CRC-32
    /// `crc`. If they are messages taken once only, `once` is the line that says so; empty
    /// otherwise. Without `bytes`, `once` has the ids of a session that has another key now.
    Append {
        stem: &'a str,
        generation: u64,
        offset: u64,
        crc: u32,
        meta: MetaState<'a>,
        once: &'a str,
        bytes: &'a [u8],
    },
    /// Only the sidecar changes.
    Meta {
        stem: &'a str,
        generation: u64,
        before: Prior<'a>,
        image: &'a [u8],
    },
    /// The prepared file `temp`, cut to `base_len` and continued by `tail`, takes the session
    /// file's name. If `temp` is gone, the rename has happened; `base_crc` tells whether the file
    /// there is the right one.
    Swap {
        stem: &'a str,
        generation: u64,
        before: Prior<'a>,
        image: &'a [u8],
        temp: &'a str,
        base_len: u64,
        base_crc: u32,
        tail: &'a [u8],
    },
    /// The session's file becomes the first `len` bytes of the backup `of`, which have the CRC-32
    /// `crc`. The old file becomes the backup `backup`, which may be the same. Until then the old
    /// file has the name `link` beside the backups, and that name is on disk before this record:
    /// the old file is not copied, and the new one need not be synced, for it can be made again. An
    /// old file that was empty becomes no backup: both names are empty then.
    Rebase {
        stem: &'a str,
        generation: u64,
        before: Prior<'a>,
        image: &'a [u8],
        of: &'a str,
        len: u64,
        crc: u32,
        link: &'a str,
        backup: &'a str,
    },
    /// Both files of the session are gone, and its backups.
    Delete {
        stem: &'a str,
        generation: u64,
        before: Prior<'a>,
    },
    /// Everything up to batch `sequence` is in the session files and synced.
    Checkpoint { sequence: u64, clean: bool },
    /// Ends a batch; without it none of the batch's records took effect.
    Commit(Commit),
}

impl Record<'_> {
    /// True if it frees space once it holds: files are removed or replaced by shorter ones, or
    /// segments given up.
    #[must_use]
    pub fn frees_space(&self) -> bool {
        match self {
            Self::Delete { .. } | Self::Swap { .. } | Self::Checkpoint { .. } => true,
            Self::Append { .. } | Self::Meta { .. } | Self::Rebase { .. } | Self::Commit(_) => {
                false
            }
        }
    }
}

/// The contents of a commit record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// The batch's number; the next batch has the next one.
    pub sequence: u64,
    /// Bytes of the batch before this record.
    pub(crate) batch_len: u32,
    /// The newest batch known to be synced when this record was written. Damage at or below it is
    /// corruption, never a torn tail.
    pub durable: u64,
}

/// A buffer that records are appended to.
pub trait Records: BufMut + AsRef<[u8]> + AsMut<[u8]> {}

impl<T: BufMut + AsRef<[u8]> + AsMut<[u8]>> Records for T {}

/// Appends `record` to `out`. Its checksum is filled in when the batch is committed.
///
/// # Panics
/// If the record is longer than 4 GiB.
pub fn encode(out: &mut impl Records, record: &Record<'_>) {
    let start = out.as_ref().len();
    out.put_slice(&[0; HEAD]);
    encode_body(out, record);
    let record = &mut out.as_mut()[start..];
    let length = u32::try_from(record.len() - HEAD).expect("a record is bounded by max batch");
    record[..4].copy_from_slice(&length.to_le_bytes());
}

fn encode_body(out: &mut impl BufMut, record: &Record<'_>) {
    match *record {
        Record::Append {
            stem,
            generation,
            offset,
            crc,
            meta,
            once,
            bytes,
        } => {
            if once.is_empty() {
                out.put_u8(APPEND);
            } else {
                out.put_u8(APPEND_ONCE);
                put_str(out, once);
            }
            put_str(out, stem);
            put_number(out, generation);
            put_number(out, offset);
            put_u32(out, crc);
            put_meta(out, meta);
            out.put_slice(bytes);
        }
        Record::Meta {
            stem,
            generation,
            before,
            image,
        } => {
            out.put_u8(META);
            put_str(out, stem);
            put_number(out, generation);
            put_before(out, before);
            put_bytes(out, image);
        }
        Record::Swap {
            stem,
            generation,
            before,
            image,
            temp,
            base_len,
            base_crc,
            tail,
        } => {
            out.put_u8(SWAP);
            put_str(out, stem);
            put_number(out, generation);
            put_before(out, before);
            put_bytes(out, image);
            put_str(out, temp);
            put_number(out, base_len);
            put_u32(out, base_crc);
            put_bytes(out, tail);
        }
        Record::Rebase {
            stem,
            generation,
            before,
            image,
            of,
            len,
            crc,
            link,
            backup,
        } => {
            out.put_u8(REBASE);
            put_str(out, stem);
            put_number(out, generation);
            put_before(out, before);
            put_bytes(out, image);
            put_str(out, of);
            put_number(out, len);
            put_u32(out, crc);
            put_str(out, link);
            put_str(out, backup);
        }
        Record::Delete {
            stem,
            generation,
            before,
        } => {
            out.put_u8(DELETE);
            put_str(out, stem);
            put_number(out, generation);
            put_before(out, before);
        }
        Record::Checkpoint { sequence, clean } => {
            out.put_u8(CHECKPOINT);
            put_number(out, sequence);
            out.put_u8(u8::from(clean));
        }
        Record::Commit(commit) => {
            out.put_u8(COMMIT);
            out.put_slice(&COMMIT_MAGIC);
            put_u64(out, commit.sequence);
            put_u32(out, commit.batch_len);
            put_u64(out, commit.durable);
        }
    }
}

/// Fills in the checksums of every record in `records`, for a segment's seed.
pub(crate) fn seal(records: &mut [u8], seed: u32) {
    let mut at = 0;
    while at < records.len() {
        let length = length_at(records, at);
        let end = at + HEAD + length;
        let crc = checksum(seed, &records[at..end]);
        records[at + 4..at + HEAD].copy_from_slice(&crc.to_le_bytes());
        at = end;
    }
}

/// The record at `at`, and the offset of the next; `None` if there is no whole, valid record of
/// this segment.
#[must_use]
pub fn decode(data: &[u8], at: usize, seed: u32) -> Option<(Record<'_>, usize)> {
    let range = frame(data, at)?;
    let bytes = &data[range.clone()];
    let stated = u32::from_le_bytes(bytes[4..HEAD].try_into().ok()?);
    if stated != checksum(seed, bytes) {
        return None;
    }
    let record = decode_body(&bytes[HEAD..])?;
    Some((record, range.end))
}

/// The commit record with its magic at `magic`, if it is one.
pub(crate) fn commit_at_magic(data: &[u8], magic: usize, seed: u32) -> Option<Commit> {
    let at = magic.checked_sub(HEAD + 1)?;
    match decode(data, at, seed) {
        Some((Record::Commit(commit), _)) => Some(commit),
        _ => None,
    }
}

/// True if the bytes at `at` may be the beginning of a record that goes on after `data`. Leftovers
/// of an older segment mostly do not have a record's kind: if they were taken for a record, the
/// rest of the segment would be read at every look.
pub(crate) fn may_go_on(data: &[u8], at: usize) -> bool {
    let Some(kind) = data.get(at + HEAD) else {
        return true;
    };
    (APPEND..=APPEND_ONCE).contains(kind) && length_at(data, at) > data.len() - at - HEAD
}

fn frame(data: &[u8], at: usize) -> Option<Range<usize>> {
    if at + HEAD >= data.len() {
        return None;
    }
    let length = length_at(data, at);
    let end = at.checked_add(HEAD)?.checked_add(length)?;
    (length > 0 && end <= data.len()).then_some(at..end)
}

fn length_at(data: &[u8], at: usize) -> usize {
    let mut length = [0; 4];
    length.copy_from_slice(&data[at..at + 4]);
    u32::from_le_bytes(length) as usize
}

fn checksum(seed: u32, record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(&record[..4]);
    hasher.update(&record[HEAD..]);
    hasher.finalize()
}

fn decode_body(body: &[u8]) -> Option<Record<'_>> {
    let mut reader = FieldReader { rest: body };
    let record = match reader.byte()? {
        APPEND => append(&mut reader, "")?,
        APPEND_ONCE => {
            let once = reader.str()?;
            append(&mut reader, once)?
        }
        META => Record::Meta {
            stem: reader.str()?,
            generation: reader.number()?,
            before: before(&mut reader)?,
            image: reader.bytes()?,
        },
        SWAP => Record::Swap {
            stem: reader.str()?,
            generation: reader.number()?,
            before: before(&mut reader)?,
            image: reader.bytes()?,
            temp: reader.str()?,
            base_len: reader.number()?,
            base_crc: reader.u32()?,
            tail: reader.bytes()?,
        },
        REBASE => Record::Rebase {
            stem: reader.str()?,
            generation: reader.number()?,
            before: before(&mut reader)?,
            image: reader.bytes()?,
            of: reader.str()?,
            len: reader.number()?,
            crc: reader.u32()?,
            link: reader.str()?,
            backup: reader.str()?,
        },
        DELETE => Record::Delete {
            stem: reader.str()?,
            generation: reader.number()?,
            before: before(&mut reader)?,
        },
        CHECKPOINT => Record::Checkpoint {
            sequence: reader.number()?,
            clean: reader.byte()? != 0,
        },
        COMMIT => {
            if reader.take(8)? != COMMIT_MAGIC {
                return None;
            }
            Record::Commit(Commit {
                sequence: reader.u64()?,
                batch_len: reader.u32()?,
                durable: reader.u64()?,
            })
        }
        _ => return None,
    };
    reader.rest.is_empty().then_some(record)
}

fn append<'a>(reader: &mut FieldReader<'a>, once: &'a str) -> Option<Record<'a>> {
    Some(Record::Append {
        stem: reader.str()?,
        generation: reader.number()?,
        offset: reader.number()?,
        crc: reader.u32()?,
        meta: meta(reader)?,
        once,
        bytes: reader.rest(),
    })
}

#[cfg(test)]
mod tests;
