//! Tells the owner of a file, by its name.

use std::path::Path;

use sessionlog_core::session_file::{LOG, SIDECAR};
use sessionlog_wal::journal::segment;

use crate::disk::archive::ArchivePart;
use crate::disk::files::backup::{self, BackupName};
use crate::disk::files::once;
use crate::engine::home;

/// Returns true if files without an owner are kept there.
pub(super) fn is_aside(site: &str) -> bool {
    let Some(own) = site.strip_prefix(home::NAME) else {
        return false;
    };
    own == "/quarantine" || own.starts_with("/backups/repair-")
}

/// Returns true if a file that was set aside may refer to many sessions.
pub(super) fn is_mixed(name: &str) -> bool {
    let name = unnumbered(name);
    let is_once = once::stem_of(name).is_some();
    let is_sessions = name.ends_with(LOG) || name.ends_with(SIDECAR);
    segment::number_of(name).is_some() || name == "sidecars.jsonl" || is_once || !is_sessions
}

pub(super) fn is_session(name: &str, stem: &str) -> bool {
    let rest = name.strip_prefix(stem);
    rest.is_some_and(|rest| rest == LOG || rest == SIDECAR)
}

pub(super) fn is_backup(name: &str, stem: &str) -> bool {
    let log = name
        .strip_suffix(SIDECAR)
        .map(|rest| format!("{rest}{LOG}"));
    let stored = BackupName::parse(log.as_deref().unwrap_or(name));
    let marked = backup::parse_number_marker(name);
    stored.is_some_and(|stored| stored.stem == stem) || marked.is_some_and(|(of, _)| of == stem)
}

pub(super) fn is_archived(name: &str, stem: &str) -> bool {
    ArchivePart::parse(name).is_some_and(|part| part.stem == stem)
}

pub(super) fn is_once(name: &str, stem: &str) -> bool {
    let mut paths = once::paths(Path::new(""), stem).into_iter();
    paths.any(|path| path == Path::new(name))
}

/// Returns a name without the number that kept it from taking another's place.
pub(super) fn unnumbered(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((rest, number)) if number.parse::<u64>().is_ok() => rest,
        _ => name,
    }
}
