//! Finds the changes that one session's two files need, once the journal needs none any more.

use std::io;
use std::path::Path;

use memchr::memmem;
use serde::de::DeserializeOwned;
use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, Kind, SessionMeta};
use sessionlog_wal::storage::Storage;

use super::census;
use super::report::SidecarCheck;
use crate::disk::copies::lost::Copies;
use crate::disk::files;
use crate::disk::files::log_path;
use crate::disk::files::sidecar::read_bytes;

/// The beginning of a record, in the order in which every writer of these files has put its fields.
const RECORD_START: &[u8] = b"{\"role\"";

/// The changes that a session needs.
#[derive(Debug, Default)]
pub(super) struct Mending {
    /// The session's key, or its file's name if no key is known. Every line of `done` and `losses`
    /// is about it.
    pub(super) name: String,
    /// The new bytes of the session file.
    pub(super) content: Option<Vec<u8>>,
    /// The new sidecar.
    pub(super) meta: Option<SessionMeta>,
    /// Bytes that are no records; they are removed from the session file.
    pub(super) garbage: Vec<u8>,
    /// True for a sidecar that nothing can be restored from: it is set aside unchanged.
    pub(super) drop_sidecar: bool,
    pub(super) done: Vec<String>,
    pub(super) losses: Vec<String>,
}

/// Finds the changes that a session needs; `None` if it needs none.
///
/// # Errors
/// If its files cannot be read.
pub(super) fn mending(
    storage: &dyn Storage,
    dir: &Path,
    stem: &str,
    copies: &mut Copies<'_>,
) -> Result<Option<Mending>> {
    let path = log_path(dir, stem);
    let log = match files::read_whole(storage, &path) {
        Ok(bytes) => Some(bytes),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(Error::io("read", &path, e)),
    };
    let (state, on_disk) = census::sidecar(storage, dir, stem)?;
    let listed = state == SidecarCheck::Sound;
    let mut mending = Mending::default();
    let restored = match state {
        SidecarCheck::Missing | SidecarCheck::Corrupt { .. } => copies.restore(stem)?,
        SidecarCheck::Unimported | SidecarCheck::Sound => None,
    };
    let before = match state {
        SidecarCheck::Unimported => None,
        SidecarCheck::Sound => on_disk,
        SidecarCheck::Missing | SidecarCheck::Corrupt { .. } if let Some(restored) = restored => {
            mending.done.push(restored.finding);
            Some(restored.meta)
        }
        SidecarCheck::Missing => derived(stem, log.is_some()),
        SidecarCheck::Corrupt { reason } => mending.corrupt_sidecar(storage, dir, stem, &reason)?,
    };
    if !listed && before.is_some() && mending.done.is_empty() {
        mending
            .done
            .push(String::from("a missing sidecar is made anew"));
    }
    let skip = before.as_ref().map_or(0, |meta| meta.skip);
    let cleaned = log
        .as_deref()
        .map(|bytes| CleanSessionFile::from(bytes, skip));
    let name = before.as_ref().map_or(stem, |meta| &meta.key);
    name.clone_into(&mut mending.name);
    mending.take_lines(cleaned, log.as_deref(), before.as_ref(), listed);
    let idle = mending.done.is_empty() && mending.losses.is_empty();
    Ok((!idle).then_some(mending))
}

impl Mending {
    fn corrupt_sidecar(
        &mut self,
        storage: &dyn Storage,
        dir: &Path,
        stem: &str,
        reason: &str,
    ) -> Result<Option<SessionMeta>> {
        let path = dir.join(session_file::sidecar_name(stem));
        let bytes = read_bytes(storage, &path).map_err(|e| Error::io("read", &path, e))?;
        let (found, missing) = fields(&bytes, stem);
        self.done
            .push(format!("the damaged sidecar ({reason}) is set aside"));
        let Some(meta) = found else {
            self.drop_sidecar = true;
            self.losses.push(String::from(
                "whose session it is; it is listed again once its key is written to",
            ));
            return Ok(None);
        };
        if !missing.is_empty() {
            let missing = missing.join(", ");
            self.losses
                .push(format!("the sidecar's {missing}, as far as there were any"));
        }
        Ok(Some(meta))
    }

    fn take_lines(
        &mut self,
        cleaned: Option<CleanSessionFile>,
        log: Option<&[u8]>,
        before: Option<&SessionMeta>,
        listed: bool,
    ) {
        let (lines, hopeless) = cleaned
            .as_ref()
            .map_or((0, 0), |cleaned| (cleaned.lines, cleaned.hopeless));
        let mut after = before.cloned();
        if let Some(cleaned) = cleaned
            && cleaned.damaged > 0
        {
            self.done.push(format!(
                "damaged lines: {}; records put back of them: {}; bytes set aside: {}",
                cleaned.damaged,
                cleaned.rescued,
                cleaned.garbage.len()
            ));
            if let Some(meta) = &mut after {
                meta.skip = cleaned.skip;
            }
            self.content = Some(cleaned.content);
            self.garbage = cleaned.garbage;
        }
        let Some(meta) = &mut after else { return };
        if log.is_none() && meta.count > 0 {
            self.losses
                .push(format!("{} lines; the session file is missing", meta.count));
        } else if meta.count > lines && listed {
            let missing = meta.count - lines;
            self.losses.push(format!(
                "lines that the sidecar counts, unless it was wrong: {missing}"
            ));
        } else if hopeless > 0 && !listed {
            self.losses.push(format!(
                "damaged lines of which nothing could be put back: {hopeless}"
            ));
        }
        meta.count = lines;
        meta.skip = meta.skip.min(lines);
        let same = before.is_some_and(|old| old.count == meta.count && old.skip == meta.skip);
        if listed && same {
            return;
        }
        if listed && self.content.is_none() {
            self.done
                .push(String::from("the sidecar counts the lines there are"));
        }
        self.meta = after;
    }
}

/// A session file without the bytes that are no records.
struct CleanSessionFile {
    content: Vec<u8>,
    garbage: Vec<u8>,
    lines: i64,
    skip: i64,
    damaged: u64,
    rescued: u64,
    /// Damaged lines of which nothing was put back.
    hopeless: u64,
}

impl CleanSessionFile {
    fn from(bytes: &[u8], skip: i64) -> Self {
        let mut cleaned = Self {
            content: Vec::new(),
            garbage: Vec::new(),
            lines: 0,
            skip: 0,
            damaged: 0,
            rescued: 0,
            hopeless: 0,
        };
        let mut before = 0;
        for (_, line) in session_file::lines(bytes) {
            match session_file::classify(line) {
                Kind::Blank => cleaned.keep(line),
                Kind::Corrupt => {
                    before += 1;
                    cleaned.take_apart(line);
                }
                Kind::Control | Kind::Transient | Kind::Message => {
                    before += 1;
                    cleaned.lines += 1;
                    cleaned.keep(line);
                }
            }
            if before <= skip {
                cleaned.skip = cleaned.lines;
            }
        }
        if skip < 0 {
            cleaned.skip = skip;
        }
        cleaned
    }

    fn keep(&mut self, line: &[u8]) {
        self.content.extend_from_slice(line);
        self.content.push(b'\n');
    }

    /// Puts records that were glued together, or to a torn one, back in lines of their own.
    fn take_apart(&mut self, line: &[u8]) {
        self.damaged += 1;
        let mut cuts: Vec<_> = memmem::find_iter(line, RECORD_START).collect();
        cuts.push(line.len());
        self.set_aside(&line[..cuts[0]]);
        let before = self.rescued;
        for cut in cuts.windows(2) {
            let piece = &line[cut[0]..cut[1]];
            if matches!(session_file::classify(piece), Kind::Message | Kind::Control) {
                self.lines += 1;
                self.rescued += 1;
                self.keep(piece);
            } else {
                self.set_aside(piece);
            }
        }
        self.hopeless += u64::from(self.rescued == before);
    }

    fn set_aside(&mut self, piece: &[u8]) {
        if !piece.is_empty() {
            self.garbage.extend_from_slice(piece);
            self.garbage.push(b'\n');
        }
    }
}

/// Returns the readable part of a damaged sidecar, and the names of the unreadable fields.
fn fields(bytes: &[u8], stem: &str) -> (Option<SessionMeta>, Vec<&'static str>) {
    let text = String::from_utf8_lossy(bytes);
    let mut missing = Vec::new();
    let key = field::<String>(&text, "key").filter(|key| leads_to(key, stem));
    let Some(key) = key.or_else(|| key_of(stem)) else {
        return (None, missing);
    };
    let mut meta = SessionMeta::empty(key);
    let mut note = |name: &'static str, found: bool| {
        if !found {
            missing.push(name);
        }
    };
    let summary = field::<String>(&text, "summary");
    note("summary", summary.is_some());
    meta.summary = summary.unwrap_or_default();
    let skip = field::<i64>(&text, "skip");
    note("skip (truncated lines show again)", skip.is_some());
    meta.skip = skip.unwrap_or(0);
    meta.count = field(&text, "count").unwrap_or(0);
    meta.scope = field(&text, "scope");
    note("scope", meta.scope.is_some());
    let aliases = field::<Vec<String>>(&text, "aliases");
    note("aliases", aliases.is_some());
    meta.aliases = aliases.unwrap_or_default();
    meta.tags = session_file::SessionTags::salvage(|name| {
        field::<Box<serde_json::value::RawValue>>(&text, name).map(|raw| raw.get().to_owned())
    });
    // Nothing shows if there were any.
    note("other fields, if there were any", false);
    let bare = meta.clone();
    for (name, into) in [
        ("created_at", &mut meta.created_at),
        ("updated_at", &mut meta.updated_at),
    ] {
        let time = field::<String>(&text, name);
        note(name, time.is_some());
        if let Some(time) = time {
            *into = time;
        }
    }
    let reads = session_file::decode_sidecar(&session_file::encode_sidecar(&meta)).is_ok();
    (Some(if reads { meta } else { bare }), missing)
}

/// Returns the value after `"name":`.
fn field<T: DeserializeOwned>(text: &str, name: &str) -> Option<T> {
    let quoted = format!("\"{name}\"");
    let at = text.find(&quoted)? + quoted.len();
    let value = text[at..].trim_start().strip_prefix(':')?;
    let mut values = serde_json::Deserializer::from_str(value).into_iter();
    values.next()?.ok()
}

fn leads_to(key: &str, stem: &str) -> bool {
    session_file::validate_key(key).is_ok()
        && (stem == session_file::plain_stem(key)
            || stem.trim_end_matches('~') == session_file::hashed_stem(key))
}

/// Returns the sidecar of a session file that has none, if its name tells its key.
fn derived(stem: &str, has_log: bool) -> Option<SessionMeta> {
    let key = key_of(stem).filter(|_| has_log)?;
    Some(SessionMeta::empty(key))
}

/// Returns the one key that has this file name; `None` if several may: `_` stands for three other
/// characters, and a hash for any key.
fn key_of(stem: &str) -> Option<String> {
    let hash = stem
        .trim_end_matches('~')
        .rsplit_once('-')
        .map(|(_, hash)| hash);
    let hashed = hash
        .is_some_and(|hash| hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let own = !stem.contains('_') && !hashed && session_file::is_safe_stem(stem);
    own.then(|| stem.to_owned())
}
