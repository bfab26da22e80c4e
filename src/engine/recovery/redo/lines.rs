//! Where journalled lines belong in a file that is there.

use std::io;
use std::path::Path;

use memchr::memrchr;

use super::Redo;
use crate::error::{Error, Result};
use crate::ground::storage::StorageFile;

impl Redo<'_> {
    /// Puts journalled lines where they belong, or after what another program
    /// wrote there meanwhile. Says whether the file was as the journal left it.
    pub(super) fn put(
        &mut self,
        file: &dyn StorageFile,
        path: &Path,
        offset: u64,
        lines: &[u8],
    ) -> Result<bool> {
        let wrap = |e| Error::io("recover", path, e);
        let len = file.info().map_err(wrap)?.len;
        let here = len >= offset && ours(file, offset, lines, len).map_err(wrap)?;
        let glued = here && glued(file, offset, lines).map_err(wrap)?;
        if here && (!glued || len > offset) {
            if glued {
                // The line feed before them is damaged: without it the line
                // before would take the first of them along.
                self.report.findings.push(format!(
                    "{} is damaged before byte {offset}, where journalled lines begin",
                    path.display(),
                ));
                file.write_all_at(b"\n", offset - 1).map_err(wrap)?;
            }
            // Of what stands there others may have read the whole lines; a part of one
            // is what a crash left.
            let there = usize::try_from(len - offset).unwrap_or(usize::MAX);
            let kept = match lines.get(..there) {
                Some(there) => offset + memrchr(b'\n', there).map_or(0, |lf| lf as u64 + 1),
                None => len,
            };
            write_whole(file, kept, lines, offset).map_err(wrap)?;
            return Ok(true);
        }
        if let Some(at) = resumed_at(file, lines, len).map_err(wrap)? {
            write_whole(file, len, lines, at).map_err(wrap)?;
            return Ok(false);
        }
        self.report.findings.push(format!(
            "{} was changed by another program after a crash; {} journalled bytes were appended",
            path.display(),
            lines.len(),
        ));
        append_behind(file, len, offset, lines).map_err(wrap)?;
        Ok(false)
    }
}

/// Puts lines that belong at `offset` after the `len` bytes that a file has.
///
/// # Errors
/// As the operating system reports them.
pub(super) fn append_behind(
    file: &dyn StorageFile,
    len: u64,
    offset: u64,
    lines: &[u8],
) -> io::Result<()> {
    let unended = usize::from(len > 0 && glued(file, len, b"{")?);
    let mut pad = vec![b'\n'; unended];
    while pad.len() < PADS && lands_at(file, len, offset, &pad, lines)? {
        pad.push(b'\n');
    }
    write_whole(file, len, &[&pad, lines].concat(), len)
}

/// Writes lines to a file. If there is no space for all of them the file keeps its
/// first `len` bytes: no part of a line may be left at its end, for other programs read
/// the file, and add to it, until there is.
fn write_whole(file: &dyn StorageFile, len: u64, lines: &[u8], at: u64) -> io::Result<()> {
    file.write_all_at(lines, at).inspect_err(|_| {
        let _ = file.set_len(len);
    })
}

/// The most line feeds that are put before lines.
const PADS: usize = 4;

/// Whether, after `len` bytes and `pad`, lines would look as if they stood at
/// `offset`. The next recovery would believe it, and put them there once more.
fn lands_at(
    file: &dyn StorageFile,
    len: u64,
    offset: u64,
    pad: &[u8],
    lines: &[u8],
) -> io::Result<bool> {
    let added = [pad, lines].concat();
    if len + (added.len() as u64) < offset {
        return Ok(false);
    }
    let old = len.saturating_sub(offset).min(lines.len() as u64) as usize;
    let mut found = vec![0; old];
    file.read_exact_at(&mut found, offset.min(len))?;
    found.extend_from_slice(&added[offset.saturating_sub(len) as usize..]);
    let ours = |(&found, &line): (&u8, &u8)| found == line || found == 0;
    Ok(found.iter().zip(lines).all(ours))
}

/// Whether lines that belong at `offset` are all there is, because what stood
/// before them is gone: there is no file, an empty one, or one that a recovery that
/// was cut short made of them.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn alone(file: Option<&dyn StorageFile>, offset: u64, lines: &[u8]) -> io::Result<bool> {
    if offset == 0 || lines.is_empty() {
        return Ok(false);
    }
    let Some(file) = file else { return Ok(true) };
    let len = file.info()?.len;
    if len == 0 {
        return Ok(true);
    }
    let before = len.saturating_sub(lines.len() as u64);
    if before > PADS as u64 || (len >= offset && ours(file, offset, lines, len)?) {
        return Ok(false);
    }
    let mut pad = vec![0; before as usize];
    file.read_exact_at(&mut pad, 0)?;
    let padded = pad.iter().all(|byte| *byte == b'\n');
    Ok(padded && resumed_at(file, lines, len)? == Some(before))
}

/// Whether what stands at `offset` is what we wrote there, or what a power loss
/// made of it: zeros where a block did not arrive.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn ours(
    file: &dyn StorageFile,
    offset: u64,
    lines: &[u8],
    len: u64,
) -> io::Result<bool> {
    let there = (len - offset).min(lines.len() as u64) as usize;
    let mut found = vec![0; there];
    file.read_exact_at(&mut found, offset)?;
    let ours = |(&found, &line): (&u8, &u8)| found == line || found == 0;
    Ok(found.iter().zip(lines).all(ours))
}

/// Whether lines at `offset` would continue the line before them.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn glued(file: &dyn StorageFile, offset: u64, lines: &[u8]) -> io::Result<bool> {
    let mut before = [b'\n'];
    if offset > 0 && lines.first() != Some(&b'\n') {
        file.read_exact_at(&mut before, offset - 1)?;
    }
    Ok(before != *b"\n")
}

/// Where the journalled lines stand, as far as they came, at the end of a file
/// that another program changed: a recovery that was cut short put them there.
/// Put there once more, they would be there twice.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn resumed_at(
    file: &dyn StorageFile,
    lines: &[u8],
    len: u64,
) -> io::Result<Option<u64>> {
    // With the byte before, which must end a line.
    let begin = len.saturating_sub(lines.len() as u64 + 1);
    let mut end = vec![0; (len - begin) as usize];
    file.read_exact_at(&mut end, begin)?;
    let mut starts = 0..end.len();
    let after_line = |at: usize| match at.checked_sub(1) {
        Some(before) => end[before] == b'\n',
        None => begin == 0,
    };
    let resumed = starts.find(|&at| {
        let mut there = end[at..].iter().zip(lines);
        after_line(at)
            && end[at] == lines[0]
            && there.all(|(found, line)| found == line || *found == 0)
    });
    Ok(resumed.map(|at| begin + at as u64))
}
