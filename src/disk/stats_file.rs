//! The statistics that a running store publishes to other processes: one text, replaced in place.
//!
//! The file has two slots, written in turn, each with a number and a checksum. A reader takes the
//! newest whole slot. It can tell that a slot is being written or was cut short by a full disk; the
//! other slot then holds the text before. The file is never synced: after a crash of the system its
//! writer does not run either.
//!
//! `SLST`, CRC-32 of what follows, number (u64), length (u32), text; all little-endian.

use std::io;

use sessionlog_wal::storage::StorageFile;

const MAGIC: &[u8; 4] = b"SLST";
const HEAD: usize = 20;

/// The distance of the slots in bytes; parts never written take no space.
const SLOT: u64 = 256 << 10;

/// The bytes written at the start of each slot when the file is made: most texts are shorter, and a
/// disk that fills up later has room for them.
const KEPT: usize = 16 << 10;

/// Reserves the room for both slots in a new file.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn prepare(file: &dyn StorageFile) -> io::Result<()> {
    let nothing = [0; KEPT];
    file.write_all_at(&nothing, 0)?;
    file.write_all_at(&nothing, SLOT)
}

/// Writes a text after the earlier ones.
///
/// # Errors
/// As the operating system reports them, or if the text is too long. The text before it is still
/// there.
pub(crate) fn write(file: &dyn StorageFile, number: u64, text: &[u8]) -> io::Result<()> {
    let len = text.len();
    if (HEAD + len) as u64 > SLOT {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::with_capacity(HEAD + len);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&(len as u32).to_le_bytes());
    bytes.extend_from_slice(text);
    let crc = crc32fast::hash(&bytes[8..]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    file.write_all_at(&bytes, number % 2 * SLOT)
}

/// The newest text that is whole; `None` if there is none.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn read(file: &dyn StorageFile) -> io::Result<Option<Vec<u8>>> {
    let slots = [slot(file, 0)?, slot(file, SLOT)?];
    let newest = slots
        .into_iter()
        .flatten()
        .max_by_key(|(number, _)| *number);
    Ok(newest.map(|(_, text)| text))
}

fn slot(file: &dyn StorageFile, at: u64) -> io::Result<Option<(u64, Vec<u8>)>> {
    let mut head = [0; HEAD];
    if !fills(file, &mut head, at)? || &head[..4] != MAGIC {
        return Ok(None);
    }
    let number = |range: std::ops::Range<usize>| {
        let bytes = head[range].iter().rev();
        bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let (crc, order, len) = (number(4..8), number(8..16), number(16..20));
    if HEAD as u64 + len > SLOT {
        return Ok(None);
    }
    let mut text = vec![0; len as usize];
    if !fills(file, &mut text, at + HEAD as u64)? {
        return Ok(None);
    }
    let mut found = crc32fast::Hasher::new();
    found.update(&head[8..]);
    found.update(&text);
    Ok((u64::from(found.finalize()) == crc).then_some((order, text)))
}

/// Fills `bytes` from `at`; returns false if the file has fewer.
fn fills(file: &dyn StorageFile, bytes: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read_exact_at(bytes, at) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        other => other.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use sessionlog_wal::storage::{OpenMode, Storage};
    use sessionlog_wal::testing::disk_model::MemoryStorage;

    fn file() -> Arc<dyn StorageFile> {
        let disk = MemoryStorage::new();
        disk.open(Path::new("/stats"), OpenMode::CreateNew).unwrap()
    }

    #[test]
    fn the_newest_text_is_read_whatever_lengths_were_before() {
        let file = file();
        assert_eq!(read(&*file).unwrap(), None);
        prepare(&*file).unwrap();
        assert_eq!(read(&*file).unwrap(), None);
        for (number, text) in ["first", "", "a longer one", "4"].into_iter().enumerate() {
            write(&*file, number as u64, text.as_bytes()).unwrap();
            assert_eq!(read(&*file).unwrap().unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn of_a_text_that_is_half_written_the_one_before_is_read() {
        let file = file();
        write(&*file, 6, b"before").unwrap();
        write(&*file, 7, b"the one that is written").unwrap();
        for at in [0, 4, 8, 16, 20, 42] {
            let mut byte = [0];
            file.read_exact_at(&mut byte, SLOT + at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x20], SLOT + at).unwrap();
            assert_eq!(read(&*file).unwrap().unwrap(), b"before", "at {at}");
            file.write_all_at(&byte, SLOT + at).unwrap();
        }
        for len in [SLOT, SLOT + 3, SLOT + HEAD as u64, SLOT + HEAD as u64 + 22] {
            file.set_len(len).unwrap();
            assert_eq!(read(&*file).unwrap().unwrap(), b"before", "of {len}");
        }
    }

    #[test]
    fn a_text_that_has_no_room_is_refused_and_leaves_the_one_before() {
        let file = file();
        write(&*file, 1, b"before").unwrap();
        write(&*file, 2, &vec![b'x'; SLOT as usize]).unwrap_err();
        write(&*file, 3, &vec![b'x'; SLOT as usize - HEAD]).unwrap();
        assert_eq!(read(&*file).unwrap().unwrap().len(), SLOT as usize - HEAD);
    }
}
