//! Export to files that PicoClaw's JSONL store reads.

mod destination;
mod lines;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file;

use self::destination::Destination;
use self::lines::Losses;
use super::PicoclawExport;
use crate::StoreHandle;
use crate::engine::reader;
use crate::engine::snapshot::Snapshot;

/// Writes every session of a store into `dir`, as files that PicoClaw's JSONL store reads in full.
/// Data that it has no place for is left out, and reported.
///
/// `dir` must be new or empty. It may lie in the store's own directory, where no verb looks for it.
/// Missing parent directories are created. For each session there are
///
/// * `<key>.jsonl`, `:`, `/` and `\` in the key as `_`: the messages that
///   [`history`](StoreHandle::history) shows, without control records and truncated messages. A
///   message with a text as its content is written as the line in the store, unknown fields
///   included. A list of parts becomes a text: text parts are joined, thoughts become
///   `reasoning_content` if that is empty, images, audio and video become `media` (`data:` and
///   `media://`) or `attachments` (other addresses).
/// * `<key>.meta.json`: summary, scope, aliases and times as they are, `skip` 0.
///
/// PicoClaw finds a session's files by its key alone. So if several keys lead to one file name,
/// only the first in byte order is exported; a session whose file name is over 255 bytes is not. A
/// file that names no session, because its sidecar was lost, is exported without one. Backups are
/// not exported.
///
/// A session is exported as it is at one moment; the store may be in use meanwhile, or be open
/// read-only. Blocks until everything is on disk, and holds no session in memory.
/// [`export_picoclaw_sessions`] exports some sessions.
///
/// Every file is there whole, and every `.jsonl` file before the first sidecar: after a crash there
/// is nothing, hidden files, or whole histories of which some lack their sidecars. If it fails, the
/// written files are removed.
///
/// ```
/// use sessionlog::{Message, Store, export_picoclaw};
///
/// # fn main() -> sessionlog::Result<()> {
/// # let scratch = tempfile::tempdir().unwrap();
/// # let dir = scratch.path();
/// let store = Store::open(dir.join("sessions"))?;
/// let chat = store.handle().context("telegram:123");
/// chat.append_message(Message::user("By train or by plane?")).wait()?;
/// chat.checkpoint(false).wait()?;
///
/// let report = export_picoclaw(dir.join("picoclaw"), &store.handle())?;
/// assert_eq!((report.sessions, report.messages), (1, 1));
/// for (key, what) in &report.left_out {
///     println!("{key}: {what}"); // telegram:123: control records (…): 1
/// }
/// # assert_eq!(report.left_out.len(), 1);
/// assert!(dir.join("picoclaw/telegram_123.meta.json").exists());
/// # store.close()
/// # }
/// ```
///
/// # Errors
/// [`Error::InStore`] if `dir` is the directory of a store, this one or another, [`Error::Io`] if
/// it has files already or cannot be written to; nothing was written then. The errors all verbs
/// share. A session that cannot be read is reported, and does not fail the call.
pub fn export_picoclaw(dir: impl AsRef<Path>, handle: &StoreHandle) -> Result<PicoclawExport> {
    let handle = handle.exact_keys();
    let mut keys: BTreeSet<String> = handle.list_sessions().wait()?.into_iter().collect();
    let nameless: BTreeSet<String> = handle.nameless()?.into_iter().collect();
    keys.retain(|key| !nameless.contains(key));
    let has_a_key = |stem: &String| session_file::plain_stem(stem) == *stem && !keys.contains(stem);
    let orphans = handle.orphans()?.into_iter();
    let (orphans, lost): (Vec<_>, Vec<_>) = orphans.partition(has_a_key);
    let mut export = ExportRun::into(dir.as_ref(), handle)?;
    for stem in lost {
        export.skip(stem, "no key leads to its file");
    }
    let listed = keys.into_iter().map(ExportedSession::listed);
    export.run(listed.chain(orphans.into_iter().map(ExportedSession::orphan)))
}

/// As [`export_picoclaw`], some sessions only. Like every verb this resolves the keys
/// first; a session is exported once.
///
/// # Errors
/// As [`export_picoclaw`], and [`Error::SessionNotFound`] if there is no session of one
/// of the keys; nothing was written then.
pub fn export_picoclaw_sessions(
    dir: impl AsRef<Path>,
    handle: &StoreHandle,
    keys: &[&str],
) -> Result<PicoclawExport> {
    let existing = |key: &&str| match handle.existing(key)? {
        Some(key) => Ok(key.to_string()),
        None => Err(Error::SessionNotFound { key: (*key).into() }),
    };
    let keys: BTreeSet<String> = keys.iter().map(existing).collect::<Result<_>>()?;
    let export = ExportRun::into(dir.as_ref(), handle.exact_keys())?;
    export.run(keys.into_iter().map(ExportedSession::listed))
}

/// A session to be exported.
struct ExportedSession {
    key: String,
    /// True if its key is known, so that a sidecar can name it.
    listed: bool,
}

impl ExportedSession {
    fn listed(key: String) -> Self {
        Self { key, listed: true }
    }

    fn orphan(stem: String) -> Self {
        Self {
            key: stem,
            listed: false,
        }
    }
}

/// A session with its files written, under hidden names.
struct HiddenSession {
    key: String,
    stem: String,
    log: PathBuf,
    sidecar: Option<PathBuf>,
    messages: usize,
    losses: Losses,
}

struct ExportRun {
    handle: StoreHandle,
    into: Destination,
    /// The keys of the file names in use.
    names: HashMap<String, String>,
    report: PicoclawExport,
}

impl ExportRun {
    fn into(dir: &Path, handle: StoreHandle) -> Result<Self> {
        Ok(Self {
            into: Destination::prepare(handle.storage(), dir)?,
            handle,
            names: HashMap::new(),
            report: PicoclawExport::default(),
        })
    }

    fn run(mut self, sessions: impl Iterator<Item = ExportedSession>) -> Result<PicoclawExport> {
        match self.write(sessions) {
            Ok(()) => Ok(self.report),
            Err(error) => {
                self.into.discard();
                Err(error)
            }
        }
    }

    fn write(&mut self, sessions: impl Iterator<Item = ExportedSession>) -> Result<()> {
        let mut staged = Vec::new();
        for session in sessions {
            staged.extend(self.stage(session)?);
        }
        self.into.sync_files()?;
        self.place(staged)
    }

    /// Writes a session under hidden names, if it can be exported.
    fn stage(&mut self, session: ExportedSession) -> Result<Option<HiddenSession>> {
        let stem = session_file::plain_stem(&session.key);
        if let Some(reason) = self.refusal(&stem) {
            self.skip(session.key, &reason);
            return Ok(None);
        }
        let snapshot = match self.handle.moment(&session.key) {
            Ok(snapshot) => snapshot,
            // The error is about this session; the others can be exported.
            Err(error @ (Error::Io { .. } | Error::InvalidKey { .. })) => {
                self.skip(session.key, &error.to_string());
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut losses = Losses::default();
        let Some((log, messages)) = self.stage_log(&session.key, &snapshot, &mut losses)? else {
            return Ok(None);
        };
        let sidecar = session
            .listed
            .then(|| self.stage_sidecar(&session.key, &snapshot, messages));
        let sidecar = sidecar.transpose()?;
        self.names.insert(stem.clone(), session.key.clone());
        Ok(Some(HiddenSession {
            key: session.key,
            stem,
            log,
            sidecar,
            messages,
            losses,
        }))
    }

    /// The reason why PicoClaw cannot have a session of this file name.
    fn refusal(&self, stem: &str) -> Option<String> {
        if stem.len() > session_file::PICOCLAW_STEM {
            return Some("PicoClaw's file name for it is over 255 bytes".into());
        }
        let other = self.names.get(stem)?;
        Some(format!("to PicoClaw its file is that of {other:?}"))
    }

    /// The path and the number of the lines; `None` if they cannot be read.
    fn stage_log(
        &mut self,
        key: &str,
        snapshot: &Snapshot,
        losses: &mut Losses,
    ) -> Result<Option<(PathBuf, usize)>> {
        let mut file = self.into.new_file()?;
        let mut messages = 0;
        let read = reader::each_line(snapshot, &mut |raw| {
            if let Some(line) = losses.exportable(raw) {
                file.push(&line);
                file.push(b"\n");
                messages += 1;
            }
            Ok(())
        });
        let path = file.finish()?;
        if let Err(error) = read {
            self.skip(key.into(), &error.to_string());
            self.into.remove(&path);
            return Ok(None);
        }
        Ok(Some((path, messages)))
    }

    fn stage_sidecar(&mut self, key: &str, snapshot: &Snapshot, lines: usize) -> Result<PathBuf> {
        let mut meta = snapshot.meta.to_sidecar();
        key.clone_into(&mut meta.key);
        meta.skip = 0;
        meta.count = i64::try_from(lines).unwrap_or(i64::MAX);
        let mut file = self.into.new_file()?;
        file.push(&session_file::encode_sidecar(&meta));
        file.finish()
    }

    /// Gives the files their names. A log without its sidecar shows all live lines; a sidecar
    /// without its log would be a session that lost its messages. So all logs are durable before
    /// the first sidecar gets its name.
    fn place(&mut self, staged: Vec<HiddenSession>) -> Result<()> {
        let mut placed = Vec::with_capacity(staged.len());
        for session in staged {
            let name = session_file::log_name(&session.stem);
            if self.into.place(&session.log, &name)? {
                placed.push(session);
                continue;
            }
            self.into.remove(&session.log);
            session
                .sidecar
                .iter()
                .for_each(|left| self.into.remove(left));
            self.skip(
                session.key,
                "the file system gives its file's name to another's",
            );
        }
        self.into.sync_names()?;
        for session in placed {
            if let Some(sidecar) = &session.sidecar {
                let name = session_file::sidecar_name(&session.stem);
                self.into.place(sidecar, &name)?;
            }
            self.count(&session);
        }
        self.into.sync_names()
    }

    fn count(&mut self, session: &HiddenSession) {
        self.report.sessions += 1;
        self.report.messages += session.messages;
        let mut left_out: Vec<String> = session.losses.texts().collect();
        if session.sidecar.is_none() {
            left_out.push("a sidecar: the store has none, and knows no key".into());
        }
        let named = left_out.into_iter().map(|what| (session.key.clone(), what));
        self.report.left_out.extend(named);
    }

    fn skip(&mut self, key: String, reason: &str) {
        tracing::warn!(key, reason, "not exported");
        self.report.not_exported.push((key, reason.into()));
    }
}
