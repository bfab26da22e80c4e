//! Keys, aliases, and the file names and shards of keys.

use std::cmp::Ordering;
use std::collections::HashSet;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The most bytes of a key.
const MAX_KEY_BYTES: usize = 1024;

/// The most bytes of a file name without its extension: the limit of file systems (255), minus the
/// longest extension and the additions of temporary names.
const MAX_STEM_BYTES: usize = 200;

/// The most bytes of a file name without its extension for PicoClaw, which finds a session's files
/// by its key alone: the limit of file systems, minus `.meta.json`.
pub const PICOCLAW_STEM: usize = 245;

/// The bytes of a key that a hashed stem shows, for people.
const MAX_PREFIX_BYTES: usize = 80;

/// The file name that PicoClaw gives a key, without extension. Several keys can share it, and it
/// may be unsafe.
#[must_use]
pub fn plain_stem(key: &str) -> String {
    key.replace([':', '/', '\\'], "_")
}

/// The name of a session's log.
#[must_use]
pub fn log_name(stem: &str) -> String {
    format!("{stem}{LOG}")
}

/// The name of a session's sidecar.
#[must_use]
pub fn sidecar_name(stem: &str) -> String {
    format!("{stem}{SIDECAR}")
}

/// The order of the sidecars of two stems by their file names, as `PicoClaw` lists them.
#[must_use]
pub fn file_order(a: &str, b: &str) -> Ordering {
    let shared = a.len().min(b.len());
    let (a, b) = (a.as_bytes(), b.as_bytes());
    a[..shared].cmp(&b[..shared]).then_with(|| {
        let (a, b) = (a[shared..].iter(), b[shared..].iter());
        a.chain(SIDECAR.as_bytes()).cmp(b.chain(SIDECAR.as_bytes()))
    })
}

/// The extension of a session's log.
pub const LOG: &str = ".jsonl";

/// The extension of a session's sidecar.
pub const SIDECAR: &str = ".meta.json";

/// True if a file may have this name: not empty, hidden, over-long or reserved by the system, and
/// without control characters.
pub fn is_safe_stem(stem: &str) -> bool {
    !stem.is_empty()
        && stem.len() <= MAX_STEM_BYTES
        && !stem.starts_with('.')
        && !stem.contains(['/', '\\'])
        && !stem.contains(char::is_control)
        && !is_reserved(stem)
}

/// A safe file name for a key whose plain name cannot be used: the start of the key, for people,
/// and half its SHA-256, so that no two keys share it.
pub fn hashed_stem(key: &str) -> String {
    let mut prefix = plain_stem(key).replace(char::is_control, "_");
    prefix.truncate(prefix.floor_char_boundary(MAX_PREFIX_BYTES));
    if prefix.starts_with('.') {
        prefix.replace_range(..1, "_");
    }
    let hash = sha256_hex(key.as_bytes());
    format!("{prefix}-{}", &hash[..32])
}

/// FNV-1a, 32 bits.
#[must_use]
pub fn fnv1a32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// Refuses keys that no session can have.
///
/// # Errors
///
/// [`Error::InvalidKey`] if it is empty, over 1,024 bytes, or holds a NUL.
pub fn validate_key(key: &str) -> Result<()> {
    let reason = if key.is_empty() {
        "it is empty"
    } else if key.len() > MAX_KEY_BYTES {
        "it is longer than 1,024 bytes"
    } else if key.contains('\0') {
        "it holds a NUL"
    } else {
        return Ok(());
    };
    Err(Error::InvalidKey { reason })
}

/// The aliases trimmed, without blanks, repetitions and the canonical key itself; their order and
/// case stay.
pub fn normalize_aliases(canonical: &str, aliases: &[String]) -> Vec<String> {
    let canonical = canonical.trim();
    let mut known = HashSet::with_capacity(aliases.len());
    aliases
        .iter()
        .map(|alias| alias.trim())
        .filter(|alias| !alias.is_empty() && *alias != canonical && known.insert(*alias))
        .map(str::to_owned)
        .collect()
}

/// True if an alias names an agent's main session. No session may inherit its history.
#[must_use]
pub fn is_main_alias(alias: &str) -> bool {
    let mut parts = alias.split(':');
    let main = parts.next() == Some("agent") && parts.next().is_some();
    if main && parts.next() == Some("main") && parts.next().is_none() {
        return true;
    }
    let Some(hash) = alias.strip_prefix("sk_v1_") else {
        return false;
    };
    ["agent:main:main", "agent:Main:main", "agent:MAIN:main"]
        .iter()
        .any(|key| sha256_hex(key.as_bytes()) == hash)
}

/// True if a key resolves to itself as soon as its files exist, before any alias is looked at.
#[must_use]
pub fn short_circuits(key: &str) -> bool {
    let key = key.trim();
    !key.is_empty() && !key.contains([':', '/', '\\'])
}

/// Names that Windows gives to devices, whatever their extension.
fn is_reserved(stem: &str) -> bool {
    if !cfg!(windows) {
        return false;
    }
    let base = stem.split('.').next().unwrap_or(stem).trim_end();
    let base = base.to_ascii_lowercase();
    let numbered = |name: &str| {
        let digit = base.strip_prefix(name).map(str::as_bytes);
        matches!(digit, Some([b'1'..=b'9']))
    };
    matches!(&*base, "con" | "prn" | "aux" | "nul")
        || numbered("com")
        || numbered("lpt")
        || stem.ends_with(['.', ' '])
}

/// A SHA-256 in lower-case hexadecimal.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let digest = Sha256::digest(bytes);
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits
        .map(|digit| char::from(HEX[usize::from(digit)]))
        .collect()
}
