use std::path::Path;

use sessionlog_wal::storage::{OpenMode, Storage};
use sessionlog_wal::testing::disk_model::MemoryStorage;

use super::*;

fn lines_back(text: &[u8], start: u64) -> Vec<(Vec<u8>, u64)> {
    let storage = MemoryStorage::new();
    let file = storage.open(Path::new("f"), OpenMode::CreateNew).unwrap();
    file.write_all_at(text, 0).unwrap();
    let mut seen = Vec::new();
    for_each_line_back(&*file, start, text.len() as u64, &mut |raw| {
        seen.push((raw.text.to_vec(), raw.begin));
        true
    })
    .unwrap();
    seen
}

#[test]
fn backwards_reading_meets_the_lines_that_forwards_reading_meets() {
    let long = vec![b'x'; 40_000];
    for text in [
        &b"a\nb\n\nc"[..],
        b"a\nb\n",
        b"\n",
        b"\n\n",
        b"a",
        &[&long[..], b"\n", &long, b"\nz\n"].concat(),
    ] {
        let mut back: Vec<_> = lines_back(text, 0).into_iter().map(|(l, _)| l).collect();
        back.reverse();
        let whole = text.strip_suffix(b"\n").unwrap_or(text);
        let forward: Vec<_> = whole.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
        assert_eq!(back, forward);
    }
}

#[test]
fn backwards_reading_stops_at_its_start() {
    let seen = lines_back(b"a\nbb\nc\n", 2);
    assert_eq!(seen, vec![(b"c".to_vec(), 5), (b"bb".to_vec(), 2)]);
}

fn lines_forth(text: &[u8], start: u64) -> Vec<(Vec<u8>, u64)> {
    let storage = MemoryStorage::new();
    let file = storage.open(Path::new("f"), OpenMode::CreateNew).unwrap();
    file.write_all_at(text, 0).unwrap();
    let mut seen = Vec::new();
    for_each_line(&*file, start, text.len() as u64, &mut |raw| {
        assert_eq!(raw.len, raw.text.len() as u64);
        seen.push((raw.text.to_vec(), raw.begin));
        Ok(())
    })
    .unwrap();
    seen
}

/// Over texts with and without LFs at the ends of chunks in either direction.
#[test]
fn both_directions_meet_the_same_lines_at_the_same_places() {
    let (first, most) = (FIRST_STEP as usize, MAX_STEP as usize);
    for long in [
        0,
        1,
        first - 1,
        first,
        first + 1,
        3 * first,
        most,
        most + first,
    ] {
        for after in [&b""[..], b"\n", b"\nx", b"\n\nxy\n", b"\r\n"] {
            let text = [&b"a\n"[..], &vec![b'x'; long], after].concat();
            for start in [0, 2] {
                let mut back = lines_back(&text, start);
                back.reverse();
                assert_eq!(back, lines_forth(&text, start), "{long} {after:?} {start}");
            }
        }
    }
}

/// A file of NULs, except for inserted bytes. Its lines are too long to be written in a test.
#[derive(Debug)]
struct Sparse {
    len: u64,
    lines: Vec<u64>,
}

impl StorageFile for Sparse {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let want = (self.len - at).min(bytes.len() as u64);
        bytes[..want as usize].fill(0);
        for lf in self.lines.iter().filter(|&&lf| lf >= at && lf - at < want) {
            bytes[(lf - at) as usize] = b'\n';
        }
        Ok(want as usize)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn info(&self) -> io::Result<sessionlog_wal::storage::FileInfo> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[test]
fn a_line_that_no_command_writes_is_walked_past() {
    let file = Sparse {
        len: 3 * LONGEST,
        lines: vec![5, 6 + LONGEST + 1, 3 * LONGEST - 1],
    };
    let expected = [
        (0, 5, false),
        (6, LONGEST + 1, true),
        (LONGEST + 8, 2 * LONGEST - 9, true),
    ];
    let told = |raw: Raw<'_>| {
        assert_eq!(
            raw.text.len() as u64,
            if raw.is_huge() { 1 } else { raw.len }
        );
        (raw.begin, raw.len, raw.is_huge())
    };
    let mut forth = Vec::new();
    for_each_line(&file, 0, file.len, &mut |raw| {
        forth.push(told(raw));
        Ok(())
    })
    .unwrap();
    assert_eq!(forth, expected);
    let mut back = Vec::new();
    for_each_line_back(&file, 0, file.len, &mut |raw| {
        back.push(told(raw));
        true
    })
    .unwrap();
    back.reverse();
    assert_eq!(back, expected);
}
