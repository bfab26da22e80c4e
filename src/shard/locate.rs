//! Finding where a truncation cuts, from the end of the file backwards: what it
//! costs follows how much is kept, not how long the session is.

use std::io;

use memchr::memrchr;

use crate::session_file::{self, Kind};
use crate::storage::StorageFile;

/// What to find: the line behind which `keep` messages remain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Raw lines in the whole file.
    pub(crate) lines: u64,
    pub(crate) keep: usize,
}

/// Where a truncation cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Located {
    /// There is no message at all.
    Nothing,
    /// No more than `keep` messages: nothing is cut.
    All,
    /// The first `skip` raw lines go; the rest begins at `start`.
    Cut { skip: u64, start: u64 },
}

/// Reads backwards until one message more than `keep` was met.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn locate(file: &dyn StorageFile, query: &Query) -> io::Result<Located> {
    let (mut behind, mut kept, mut cut) = (0, 0, None);
    for_each_line_back(file, query.start, query.end, &mut |raw, next| {
        let kind = session_file::classify(raw);
        if kind == Kind::Message {
            if kept == query.keep {
                cut = Some(Located::Cut {
                    skip: query.lines - behind,
                    start: next,
                });
                return false;
            }
            kept += 1;
        }
        behind += u64::from(kind != Kind::Blank);
        true
    })?;
    Ok(match cut {
        Some(cut) => cut,
        None if kept == 0 => Located::Nothing,
        None => Located::All,
    })
}

const FIRST_STEP: u64 = 16 << 10;
const MAX_STEP: u64 = 4 << 20;

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
    use crate::storage::memory::MemoryStorage;
    use crate::storage::{OpenMode, Storage};
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
