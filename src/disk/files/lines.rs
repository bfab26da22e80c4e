//! Walking the lines of a file, forwards and backwards: what it costs in memory
//! follows the longest line, not how long the file is.

use std::io;

use memchr::memrchr;

use crate::disk::session_file;
use crate::ground::storage::StorageFile;

/// How much is read at a time, walking forwards, bytes.
const STEP: usize = 4 << 20;

/// What is read first, and at most at a time, walking backwards, bytes.
const FIRST_STEP: u64 = 16 << 10;
const MAX_STEP: u64 = 4 << 20;

/// Calls `visit` with every raw line of `file[start..end]`, its LF cut off. A
/// last line without LF is a line.
///
/// # Errors
/// As the operating system or `visit` reports them.
pub(crate) fn for_each_line(
    file: &dyn StorageFile,
    start: u64,
    end: u64,
    visit: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let (mut at, mut rest) = (start, Vec::new());
    while at < end {
        let want = (end - at).min(STEP as u64) as usize;
        let kept = rest.len();
        rest.resize(kept + want, 0);
        file.read_exact_at(&mut rest[kept..], at)?;
        at += want as u64;
        let whole = memchr::memrchr(b'\n', &rest).map_or(0, |lf| lf + 1);
        for (_, raw) in session_file::lines(&rest[..whole]) {
            visit(raw)?;
        }
        rest.drain(..whole);
    }
    if rest.is_empty() {
        Ok(())
    } else {
        visit(&rest)
    }
}

/// Calls `visit` with each raw line of `file[start..end]`, last line first, and
/// the offset behind it, until it returns `false`.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn for_each_line_back(
    file: &dyn StorageFile,
    start: u64,
    end: u64,
    visit: &mut dyn FnMut(&[u8], u64) -> bool,
) -> io::Result<()> {
    // `window` holds `file[at..stop]`; every line behind `stop` was visited.
    let (mut at, mut stop, mut stride) = (end, end, FIRST_STEP);
    let mut window: Vec<u8> = Vec::new();
    let mut searched = 0;
    while stop > start {
        let body = window.strip_suffix(b"\n").unwrap_or(&window);
        let unsearched = &body[..body.len().saturating_sub(searched)];
        let begin = match memrchr(b'\n', unsearched) {
            Some(lf) => lf + 1,
            None if at == start && !window.is_empty() => 0,
            None => {
                searched = body.len();
                let want = stride.min(at - start);
                at -= want;
                let mut grown = vec![0; want as usize];
                file.read_exact_at(&mut grown, at)?;
                grown.append(&mut window);
                window = grown;
                stride = (stride * 2).min(MAX_STEP);
                continue;
            }
        };
        searched = 0;
        if !visit(&body[begin..], stop) {
            return Ok(());
        }
        stop = at + begin as u64;
        window.truncate(begin);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::storage::{OpenMode, Storage};
    use crate::testing::disk_model::MemoryStorage;
    use std::path::Path;

    fn lines_back(text: &[u8], start: u64) -> Vec<(Vec<u8>, u64)> {
        let storage = MemoryStorage::new();
        let file = storage.open(Path::new("f"), OpenMode::CreateNew).unwrap();
        file.write_all_at(text, 0).unwrap();
        let mut seen = Vec::new();
        for_each_line_back(&*file, start, text.len() as u64, &mut |raw, next| {
            seen.push((raw.to_vec(), next));
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
        assert_eq!(seen, vec![(b"c".to_vec(), 7), (b"bb".to_vec(), 5)]);
    }
}
