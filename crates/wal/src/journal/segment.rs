//! Journal segments: zero-filled files that batches are written into.
//!
//! ```text
//! segment  header, 4,096 bytes · batch* · zeros
//! header   magic "slJOURNL" · version u32 = 3 · store id [16] · number u64 · salt u64
//!          · length u64 · CRC-32 u32 of the fields before it · zeros
//! seed     CRC-32 of salt and number
//! ```
//!
//! All numbers are little-endian. A segment is filled with zeros and synced before it is used:
//! overwriting blocks that the file already has costs the disk one flush, growing a file costs it
//! two.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sessionlog_core::error::{Error, Result};

use super::cursor::{AlignedBuffer, Route, SegmentFile};
use crate::storage::{OpenMode, Storage, StorageFile};
use crate::sync::thread;

/// The offset of the first record: the length of the header in bytes.
pub const HEADER: usize = 4096;

/// The sizes of segments, and of all of them together, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Lengths {
    /// The first segment of an opened store; each next one is four times larger, so that small
    /// stores stay small on disk.
    pub first: u64,
    /// The largest, unless a single batch needs more.
    pub largest: u64,
    /// All of them, spares included. If there is little space, they take less.
    pub budget: u64,
}

impl Default for Lengths {
    fn default() -> Self {
        Self {
            first: 1 << 20,
            largest: 64 << 20,
            budget: 768 << 20,
        }
    }
}

const MAGIC: [u8; 8] = *b"slJOURNL";
const VERSION: u32 = 3;
const FIELDS: usize = 8 + 4 + 16 + 8 + 8 + 8;
/// The number of zeros written at a time, in bytes.
const ZEROS: usize = 1 << 20;

/// The number of zeros per step at leisure, and the pause after it, which leaves the disk to
/// others. A commit whose sync comes after a mebibyte of zeros takes five times as long.
const STEP: usize = 128 << 10;
const PAUSE: Duration = Duration::from_micros(300);

/// Smaller segments are filled so quickly that steps would spare nothing.
const AT_LEISURE: u64 = 16 << 20;

/// A store's identity, in every segment header: a journal of another store is refused, not
/// replayed.
pub type StoreId = [u8; 16];

/// A segment that is ready for records.
#[derive(Debug)]
pub struct Segment {
    /// The number in its name.
    pub number: u64,
    /// Its length in bytes.
    pub len: u64,
    /// The seed of record checksums in this segment.
    pub seed: u32,
    pub(super) file: SegmentFile,
}

/// The file name of segment `number`.
#[must_use]
pub fn name(number: u64) -> String {
    format!("segment-{number:016x}.log")
}

/// The segment number in a file name, if it is a segment's.
#[must_use]
pub fn number_of(name: &str) -> Option<u64> {
    let hex = name.strip_prefix("segment-")?.strip_suffix(".log")?;
    (hex.len() == 16)
        .then(|| u64::from_str_radix(hex, 16).ok())
        .flatten()
}

/// Makes segment `number` in the blocks of `blank`.
///
/// The name appears only after the zeros and the header are on disk, and is itself on disk when
/// this returns: a batch in a segment whose name a power loss can take would be lost with it.
///
/// # Errors
/// `StorageFull` leaves nothing behind. `Poisoned` if the directory could not be synced.
pub fn create(
    storage: &dyn Storage,
    dir: &Path,
    store: &StoreId,
    number: u64,
    blank: &Spare,
) -> Result<Segment> {
    let Spare { path, file, len } = blank;
    let salt = fresh_salt().map_err(|e| Error::io("draw a salt for", dir, e))?;
    let mut header = AlignedBuffer::new(HEADER);
    header
        .bytes()
        .copy_from_slice(&encode_header(store, number, salt, *len));
    let file = SegmentFile::new(file.clone());
    let named = dir.join(name(number));
    file.write(header.bytes(), HEADER, 0, Route::Disk)
        .and_then(|_| file.sync())
        .and_then(|()| storage.rename(path, &named))
        .map_err(|e| Error::io("create journal segment", &named, e))?;
    storage.sync_dir(dir).map_err(|e| Error::sync(dir, e))?;
    Ok(Segment {
        number,
        len: *len,
        seed: seed(salt, number),
        file,
    })
}

/// A file whose blocks the next segment takes over: full of zeros, or a retired segment, whose old
/// records have another salt.
#[derive(Debug)]
pub struct Spare {
    /// Its path.
    pub path: PathBuf,
    pub(super) file: Arc<dyn StorageFile>,
    /// Its length in bytes.
    pub len: u64,
}

/// The way in which zeros reach the disk.
#[derive(Clone, Copy)]
pub(crate) enum Filling<'a> {
    /// As soon as possible: the committer waits.
    AtOnce,
    /// A step at a time, each synced: all at once they would stand before every commit in the
    /// device's queue. Steps are small, with pauses between, until the function says that the
    /// segment is needed soon.
    InSteps(&'a dyn Fn() -> bool),
}

/// A file full of zeros for segment `number`; the last step is not synced.
///
/// # Errors
/// `StorageFull` leaves nothing behind.
pub(crate) fn zeroed(
    storage: &dyn Storage,
    dir: &Path,
    number: u64,
    len: u64,
    filling: Filling<'_>,
) -> Result<Spare> {
    let path = dir.join(format!("segment-{number:016x}.tmp"));
    let wrap = |e| Error::io("create journal segment", &path, e);
    let file = match storage.open(&path, OpenMode::CreateNew) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            storage.remove_file(&path).map_err(wrap)?;
            storage.open(&path, OpenMode::CreateNew)
        }
        other => other,
    }
    .map_err(wrap)?;
    let file = SegmentFile::new(file);
    if let Err(e) = fill(&file, len, filling) {
        // A half-filled segment would keep the space that ran out.
        let _ = storage.remove_file(&path);
        return Err(wrap(e));
    }
    let file = file.into_file();
    Ok(Spare { path, file, len })
}

fn fill(file: &SegmentFile, len: u64, filling: Filling<'_>) -> io::Result<()> {
    let mut zeros = AlignedBuffer::new(ZEROS.min(len as usize));
    let mut at = 0;
    while at < len {
        let is_calm = matches!(filling, Filling::InSteps(is_urgent) if !is_urgent());
        let has_time = is_calm && len >= AT_LEISURE;
        let step = if has_time { STEP } else { ZEROS };
        let n = (len - at).min(step as u64);
        let zeros = &zeros.bytes()[..n as usize];
        file.write(zeros, zeros.len(), at, Route::Disk)?;
        at += n;
        if matches!(filling, Filling::InSteps(_)) {
            file.sync()?;
        }
        if has_time && at < len {
            thread::pause(PAUSE);
        }
    }
    Ok(())
}

/// Reads the header at the beginning of a segment of `len` bytes.
///
/// # Errors
/// `Corrupt` if the header is damaged or names another store or number, or if the segment
/// is cut short.
pub fn decode_header(
    data: &[u8],
    len: usize,
    path: &Path,
    store: &StoreId,
    number: u64,
) -> Result<HeaderState> {
    let header = stated_header(data, path, store, number)?;
    // A segment gets its name only after its zeros are on disk. If it is shorter than that, batches
    // are missing without leaving a hole.
    let mut length = [0; 8];
    length.copy_from_slice(&data[44..52]);
    if (len as u64) < u64::from_le_bytes(length) {
        return Err(corrupt(path, "journal segment is cut short"));
    }
    Ok(header)
}

fn corrupt(path: &Path, detail: &str) -> Error {
    Error::Corrupt {
        path: path.into(),
        detail: detail.into(),
    }
}

/// Reads the header at the beginning of a segment.
///
/// # Errors
/// `Corrupt` if it is damaged or names another store or number.
pub(crate) fn stated_header(
    data: &[u8],
    path: &Path,
    store: &StoreId,
    number: u64,
) -> Result<HeaderState> {
    let corrupt = |detail| corrupt(path, detail);
    if data.len() < HEADER {
        return Err(corrupt("journal segment shorter than its header"));
    }
    let (fields, rest) = data.split_at(FIELDS);
    let crc = u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]);
    if fields[..8] != MAGIC || crc != crc32fast::hash(fields) {
        return Err(corrupt("journal segment header is damaged"));
    }
    if fields[8..12] != VERSION.to_le_bytes() {
        return Err(corrupt(
            "journal segment of another format version: the release that wrote it reads it",
        ));
    }
    if fields[12..28] != *store {
        return Err(corrupt("journal segment belongs to another store"));
    }
    if fields[28..36] != number.to_le_bytes() {
        return Err(corrupt("journal segment's number is not its name's"));
    }
    Ok(HeaderState {
        seed: stated_seed(fields, number),
    })
}

fn stated_seed(fields: &[u8], number: u64) -> u32 {
    let mut salt = [0; 8];
    salt.copy_from_slice(&fields[36..44]);
    seed(u64::from_le_bytes(salt), number)
}

/// The contents of a header that may be damaged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeaderClaims {
    /// The seed of record checksums, if its salt is right.
    pub seed: u32,
    /// The store that it names, if its checksum holds.
    pub store: Option<StoreId>,
    /// True if another release wrote it, in a format that this one does not read.
    pub(crate) is_of_another_version: bool,
}

/// Reads the readable parts of a damaged header; `None` if too little of it is left.
pub(crate) fn salvage_header(data: &[u8], number: u64) -> Option<HeaderClaims> {
    let (fields, rest) = data.split_at_checked(FIELDS)?;
    let crc = u32::from_le_bytes(rest.get(..4)?.try_into().ok()?);
    let whole = fields[..8] == MAGIC && crc == crc32fast::hash(fields);
    Some(HeaderClaims {
        seed: stated_seed(fields, number),
        store: whole.then(|| fields[12..28].try_into().ok()).flatten(),
        is_of_another_version: whole && fields[8..12] != VERSION.to_le_bytes(),
    })
}

/// The part of a header that recovery needs.
#[derive(Debug, Clone, Copy)]
pub struct HeaderState {
    /// The seed of record checksums in the segment.
    pub seed: u32,
}

fn encode_header(store: &StoreId, number: u64, salt: u64, len: u64) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER);
    header.extend_from_slice(&MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(store);
    header.extend_from_slice(&number.to_le_bytes());
    header.extend_from_slice(&salt.to_le_bytes());
    header.extend_from_slice(&len.to_le_bytes());
    let crc = crc32fast::hash(&header);
    header.extend_from_slice(&crc.to_le_bytes());
    header.resize(HEADER, 0);
    header
}

fn seed(salt: u64, number: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(&number.to_le_bytes());
    hasher.finalize()
}

fn fresh_salt() -> io::Result<u64> {
    getrandom::u64().map_err(|e| io::Error::other(e.to_string()))
}
