//! Floor 2: formats on disk, and reading and writing files of these formats. Nothing here knows who
//! owns a session, or when it is written.
//!
//! # What lies in a store's directory
//!
//! ```text
//! <dir>                                       flock(2), if directories can be locked
//! <dir>/<stem>.jsonl  <stem>.meta.json        a session: its lines, its sidecar
//! <dir>/.sessionlog-<16 hex>.tmp              a rewrite or sidecar not yet in place
//! <dir>/.session-<16 hex>-<n>.tmp             an older JSON file not yet in place
//! <dir>/.sessionlog-recovery-<16 hex>         recovery's scratch
//! <dir>/.sessionlog/identity                  "sessionlog 1 " + store id (32 hex) + LF
//! <dir>/.sessionlog/lock                      flock(2); the holder's process id, and which life it is
//! <dir>/.sessionlog/catalog                   which sessions there were at the last clean end
//! <dir>/.sessionlog/catalog.tmp               the same, not yet in place
//! <dir>/.sessionlog/stats                     flock(2); what a running store tells of itself
//! <dir>/.sessionlog/once/<stem>.{ids,old}.jsonl  which messages a session took once
//! <dir>/.sessionlog/archive/<stem>.<year>-<month>.<numbers>.jsonl.gz  what compactions dropped
//! <dir>/.sessionlog/archive/.sessionlog-<16 hex>.tmp  the same, not yet in place
//! <dir>/.sessionlog/sidecars.jsonl            copies of what sidecars say
//! <dir>/.sessionlog/sidecars.tmp              the same, not yet in place
//! <dir>/.sessionlog/journal/segment-<16 hex>.log
//! <dir>/.sessionlog/journal/{segment,spare}-<16 hex>.tmp
//! <dir>/.sessionlog/journal/reserve-<n>        64 KiB of zeros each, where little space is left
//! <dir>/.sessionlog/quarantine/<name>[.<n>]   set aside, never overwritten
//! <dir>/.sessionlog/backups/<stem>.<n>-<reason>-<milliseconds>-<skip>.jsonl
//! <dir>/.sessionlog/backups/<...>.meta.json   beside a `conflict`: the sidecar then
//! <dir>/.sessionlog/backups/.sessionlog-<16 hex>.tmp a second name of a session file
//! <dir>/.sessionlog/backups/repair-<n>/<name> what a repair changed; never removed
//! ```
//!
//! `sessionlog_core::session_file` has the format of sessions and the rules for stems,
//! `sessionlog_wal::journal` that of
//! segments, [`copies`] that of copies, [`catalog_file`] that of the catalog file, [`archive`] that
//! of the archive, [`stats_file`] that of the published statistics.
//!
//! Directories are made 0700 and files 0600. The store's directory must be the user's own. A
//! symbolic link is never followed as the store's directory or as a session file: its session
//! answers with an error that names it.
//!
//! A writer locks the directory itself first, then the lock file. If something is in the way of
//! `.sessionlog`, a store of PicoClaw's older files uses the first lock alone. The lock file is
//! never removed: a lock on a name that can be replaced locks nothing.
//!
//! # What is not protected
//!
//! * Bytes that a medium changes inside a session file or a sidecar: there is no checksum. If the
//!   changed bytes still make a record, it cannot be told from the right one. `verify` reports
//!   bytes that make no record, or that change the number of lines.
//! * The last batch of the journal, damaged whole, or its newest segment removed: either looks like
//!   a commit that never finished. Lines of it that had reached the session files stay there, and
//!   older records are replayed on top of them.
//! * A lost sidecar that has no copy, because this store never flushed the session or the copies
//!   are gone, too. The history stays, but its truncated lines show again, and its summary, scope
//!   and aliases are gone. Truncated lines also show beside a session file that was replaced or
//!   edited.
//! * Changes by other programs after a crash that look like a crash: a file cut within the lines
//!   that the journal holds is completed, and a session that began in the journal and has no file
//!   is made again. A file that has none of our lines counts as written anew, also if its lines
//!   were meant to follow ours.
//! * A session that has only a sidecar: without it, it counts as deleted.
//! * Programs that ignore the lock, and malicious users with write access to the directory. A
//!   checksum stops accidents only, although records that name other files are refused.

pub(crate) mod archive;
pub(crate) mod catalog_file;
pub(crate) mod copies;
pub(crate) mod files;
pub(crate) mod stats_file;
