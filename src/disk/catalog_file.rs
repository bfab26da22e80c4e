//! The catalog file: the sessions of a directory, as they were when its store was closed.
//!
//! ```text
//! "sessionlog catalog 2\n"  crc32 of all that follows
//! store id (16)  the directory's inode (8) and last change (16)
//! sessions (4)  aliases (4)
//! for each session the lengths of its stem and its key, how many aliases it has, and when it
//! was updated, nanoseconds since 1970 (4, 4, 4, 8)
//! for each alias its length (4)
//! for each session its stem, its key and its aliases, as UTF-8
//! ```
//!
//! Numbers are little-endian. Sessions stand in the order of their sidecars' names. The file only
//! saves time, and nothing relies on it: a store that finds no such file, or a file that is damaged
//! or of another version of the directory, reads the sidecars.

use sessionlog_core::session_file;
use sessionlog_wal::journal::segment::StoreId;
use sessionlog_wal::storage::FileInfo;

const MAGIC: &[u8] = b"sessionlog catalog 2\n";

/// The version of a directory: two looks give the same version only if no name in it changed
/// between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryVersion {
    inode: u64,
    changed: i128,
}

impl DirectoryVersion {
    pub(crate) fn of(directory: &FileInfo) -> Self {
        Self {
            inode: directory.inode,
            changed: directory.changed,
        }
    }
}

/// Sessions with their names and aliases, in the order of their sidecars' names, in one piece of
/// memory.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    sessions: Vec<Row>,
    /// The lengths of all aliases.
    aliases: Vec<u32>,
    /// For each session its stem, its key and its aliases.
    text: String,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    updated: i64,
    /// The session's begin in `text`; `aliases` is the begin of its aliases in `aliases`.
    text: u64,
    aliases: u32,
    stem: u32,
    key: u32,
}

/// Stands for an unknown time.
const UNKNOWN: i64 = i64::MAX;

/// Bytes per session in the file, without its text.
const NUMBERS: usize = 20;

impl Rows {
    /// Adds a session with its time of update in nanoseconds since 1970, if known. Its sidecar's
    /// name must come after all others. Returns `false` if there is no room for more: positions
    /// have 32 bits.
    #[must_use]
    pub(crate) fn push(
        &mut self,
        stem: &str,
        key: &str,
        aliases: &[String],
        updated: Option<i64>,
    ) -> bool {
        let counts = [self.sessions.len(), self.aliases.len() + aliases.len()];
        let lengths = aliases.iter().map(String::len);
        let lengths = lengths.chain([stem.len(), key.len()]);
        if counts
            .into_iter()
            .chain(lengths)
            .any(|n| n >= u32::MAX as usize)
        {
            return false;
        }
        self.sessions.push(Row {
            updated: updated.unwrap_or(UNKNOWN),
            text: self.text.len() as u64,
            aliases: self.aliases.len() as u32,
            stem: stem.len() as u32,
            key: key.len() as u32,
        });
        self.text.push_str(stem);
        self.text.push_str(key);
        for alias in aliases {
            self.aliases.push(alias.len() as u32);
            self.text.push_str(alias);
        }
        true
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// The file name of session `row`, without extension.
    pub(crate) fn stem(&self, row: usize) -> &str {
        let Row { text, stem, .. } = self.sessions[row];
        &self.text[text as usize..][..stem as usize]
    }

    pub(crate) fn key(&self, row: usize) -> &str {
        let Row {
            text, stem, key, ..
        } = self.sessions[row];
        &self.text[text as usize + stem as usize..][..key as usize]
    }

    /// The time when session `row` was updated, if known.
    pub(crate) fn updated(&self, row: usize) -> Option<i64> {
        let updated = self.sessions[row].updated;
        (updated != UNKNOWN).then_some(updated)
    }

    pub(crate) fn set_updated(&mut self, row: usize, updated: i64) {
        self.sessions[row].updated = updated;
    }

    pub(crate) fn aliases(&self, row: usize) -> impl Iterator<Item = &str> {
        self.aliases_at(row).map(|(_, alias)| alias)
    }

    /// The aliases of a session, each with its place.
    pub(crate) fn aliases_at(&self, row: usize) -> impl Iterator<Item = (u64, &str)> {
        let Row {
            text,
            aliases,
            stem,
            key,
            ..
        } = self.sessions[row];
        let next = self.sessions.get(row + 1);
        let end = next.map_or(self.aliases.len(), |next| next.aliases as usize);
        let mut at = text + u64::from(stem) + u64::from(key);
        self.aliases[aliases as usize..end].iter().map(move |len| {
            let begin = at;
            at += u64::from(*len);
            (begin, self.text_at(begin, *len))
        })
    }

    /// The text at a place.
    pub(crate) fn text_at(&self, at: u64, len: u32) -> &str {
        &self.text[at as usize..][..len as usize]
    }

    /// The number of aliases of all sessions together.
    pub(crate) fn claims(&self) -> usize {
        self.aliases.len()
    }
}

/// The bytes of a catalog file.
pub(crate) fn encode(id: &StoreId, version: DirectoryVersion, rows: &Rows) -> Vec<u8> {
    let numbers = rows.sessions.len() * NUMBERS + rows.aliases.len() * 4;
    let mut bytes = Vec::with_capacity(MAGIC.len() + 64 + numbers + rows.text.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(id);
    bytes.extend_from_slice(&version.inode.to_le_bytes());
    bytes.extend_from_slice(&version.changed.to_le_bytes());
    bytes.extend_from_slice(&(rows.sessions.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(rows.aliases.len() as u32).to_le_bytes());
    let ends = rows.sessions.iter().skip(1).map(|next| next.aliases);
    let ends = ends.chain([rows.aliases.len() as u32]);
    for (row, end) in rows.sessions.iter().zip(ends) {
        for number in [row.stem, row.key, end - row.aliases] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&row.updated.to_le_bytes());
    }
    for len in &rows.aliases {
        bytes.extend_from_slice(&len.to_le_bytes());
    }
    bytes.extend_from_slice(rows.text.as_bytes());
    let start = MAGIC.len() + 4;
    let crc = crc32fast::hash(&bytes[start..]);
    bytes[MAGIC.len()..start].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Decodes the catalog file of store `id` for a directory of this version. `None` if it is damaged,
/// or belongs to another store or version.
pub(crate) fn decode(bytes: &[u8], id: &StoreId, version: DirectoryVersion) -> Option<Rows> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    if u32::from_le_bytes(*take(&mut rest)?) != crc32fast::hash(rest) {
        return None;
    }
    let is_own = take(&mut rest)? == id
        && u64::from_le_bytes(*take(&mut rest)?) == version.inode
        && i128::from_le_bytes(*take(&mut rest)?) == version.changed;
    if !is_own {
        return None;
    }
    let sessions = u32::from_le_bytes(*take(&mut rest)?) as usize;
    let claims = u32::from_le_bytes(*take(&mut rest)?) as usize;
    let (numbers, rest) = rest.split_at_checked(sessions.checked_mul(NUMBERS)?)?;
    let (lengths, text) = rest.split_at_checked(claims.checked_mul(4)?)?;
    let (lengths, _) = lengths.as_chunks();
    let rows = Rows {
        aliases: lengths.iter().map(|len| u32::from_le_bytes(*len)).collect(),
        text: simdutf8::basic::from_utf8(text).ok()?.to_owned(),
        sessions: Vec::with_capacity(sessions),
    };
    rows.cut(numbers.as_chunks().0)
}

impl Rows {
    /// Computes the begin of each session. `None` unless the lengths add up to the text and fall
    /// between characters, and the names are valid and in order.
    fn cut(mut self, numbers: &[[u8; NUMBERS]]) -> Option<Self> {
        let (mut at, mut claims) = (0usize, 0usize);
        for numbers in numbers {
            let [stem, key, aliases] = [0, 4, 8].map(|n| {
                u32::from_le_bytes([numbers[n], numbers[n + 1], numbers[n + 2], numbers[n + 3]])
            });
            let mut updated = [0; 8];
            updated.copy_from_slice(&numbers[12..]);
            self.sessions.push(Row {
                updated: i64::from_le_bytes(updated),
                text: at as u64,
                aliases: claims as u32,
                stem,
                key,
            });
            let end = claims.checked_add(aliases as usize)?;
            for len in [stem, key].iter().chain(self.aliases.get(claims..end)?) {
                at = at.checked_add(*len as usize)?;
                if !self.text.is_char_boundary(at) {
                    return None;
                }
            }
            claims = end;
        }
        let is_whole = at == self.text.len() && claims == self.aliases.len();
        (is_whole && self.is_sound()).then_some(self)
    }

    fn is_sound(&self) -> bool {
        let in_order =
            |row| row == 0 || session_file::file_order(self.stem(row - 1), self.stem(row)).is_lt();
        let is_named = |row| !self.key(row).is_empty() && !self.stem(row).contains(['/', '\0']);
        (0..self.len()).all(|row| in_order(row) && is_named(row))
    }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: StoreId = [7; 16];
    const VERSION: DirectoryVersion = DirectoryVersion {
        inode: 11,
        changed: 12,
    };

    fn some() -> Rows {
        let mut rows = Rows::default();
        let aliases = ["agent:main:main", "téléphone"].map(String::from);
        assert!(rows.push("a-b", "a/b", &aliases, Some(-5)));
        assert!(rows.push("a", "a", &[], None));
        assert!(rows.push("ü", "ü", &aliases[1..], Some(i64::MIN)));
        rows
    }

    fn told(rows: &Rows) -> Vec<(&str, &str, Vec<&str>)> {
        let told = |row| (rows.stem(row), rows.key(row), rows.aliases(row).collect());
        (0..rows.len()).map(told).collect()
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for rows in [Rows::default(), some()] {
            let bytes = encode(&ID, VERSION, &rows);
            let again = decode(&bytes, &ID, VERSION).expect("decodes");
            assert_eq!(told(&again), told(&rows));
            assert_eq!(again.claims(), rows.claims());
            let times = |rows: &Rows| (0..rows.len()).map(|row| rows.updated(row)).collect();
            let (times, said): (Vec<_>, Vec<_>) = (times(&again), times(&rows));
            assert_eq!(times, said);
        }
    }

    #[test]
    fn a_file_of_another_store_or_version_says_nothing() {
        let bytes = encode(&ID, VERSION, &some());
        let other = [8; 16];
        let later = DirectoryVersion {
            changed: 13,
            ..VERSION
        };
        let copied = DirectoryVersion {
            inode: 12,
            ..VERSION
        };
        assert!(decode(&bytes, &other, VERSION).is_none());
        assert!(decode(&bytes, &ID, later).is_none());
        assert!(decode(&bytes, &ID, copied).is_none());
    }

    #[test]
    fn a_damaged_file_says_nothing() {
        let bytes = encode(&ID, VERSION, &some());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(decode(&damaged, &ID, VERSION).is_none(), "byte {at}");
            assert!(decode(&bytes[..at], &ID, VERSION).is_none(), "cut at {at}");
        }
    }

    /// A checksum stops accidents; decoding must not panic either way.
    #[test]
    fn lengths_that_make_no_sense_are_refused() {
        let bytes = encode(&ID, VERSION, &some());
        let start = MAGIC.len() + 4;
        for at in start + 40..bytes.len() {
            for value in [0, 1, 2, 0x7f, 0xff] {
                let mut forged = bytes.clone();
                forged[at] = value;
                let crc = crc32fast::hash(&forged[start..]);
                forged[MAGIC.len()..start].copy_from_slice(&crc.to_le_bytes());
                if let Some(rows) = decode(&forged, &ID, VERSION) {
                    assert_eq!(told(&rows).len(), rows.len());
                }
            }
        }
    }
}
