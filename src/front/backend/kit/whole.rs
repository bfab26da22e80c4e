//! Whole sessions of a directory, for who copies them.

use crate::disk::files::backup::Stored;
use crate::disk::session_file::{self, Carried};
use crate::front::handle::blocking;
use crate::front::reply::Reply;
use crate::{RawValue, Result, StoreHandle};

/// The lines of a session, each ended by LF: what hidden control records still say, and then
/// the visible lines, as bytes. Empty for one that does not exist.
pub fn lines_of(chats: &StoreHandle, key: &str) -> Reply<Vec<u8>> {
    let (chats, key) = (chats.clone(), key.to_owned());
    Reply::lookup(move |place| {
        Box::pin(blocking(place, move || {
            let (lines, start) = chats.all_lines(&key)?;
            Ok(without_hidden(&lines, start))
        }))
    })
}

/// Of lines of which those before `start` are hidden, what counts: the last control record of
/// each kind that is hidden, and the rest as it is. Each is ended by LF.
#[must_use]
pub fn without_hidden(lines: &[u8], start: usize) -> Vec<u8> {
    let (hidden, live) = lines.split_at(start.min(lines.len()));
    let mut carried = Carried::default();
    for (_, line) in session_file::lines(hidden) {
        carried.note(line);
    }
    let mut whole = Vec::with_capacity(live.len());
    let live = session_file::lines(live).map(|(_, line)| line.to_vec());
    for line in carried.into_lines().chain(live) {
        whole.extend_from_slice(&line);
        whole.push(b'\n');
    }
    whole
}

/// Lines, each without its LF.
pub fn split_lines(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    session_file::lines(lines).map(|(_, line)| line)
}

/// Puts a session in the place of whatever is under its key: lines, each ended by LF, its
/// summary, scope and aliases. If it `keeps` what was there, that becomes a backup
/// ([`BackupReason::Clear`](crate::BackupReason::Clear)); else that is gone. Backups that are
/// there already stay. In several steps; cut short, it is to be done again.
pub fn put_session(
    chats: &StoreHandle,
    key: &str,
    lines: Vec<u8>,
    summary: String,
    (scope, aliases): (Option<Box<RawValue>>, Vec<String>),
    keeps: bool,
) -> Reply<()> {
    let (chats, key) = (chats.exact_keys(), key.to_owned());
    Reply::from_future(async move {
        let before = chats.list_backups(&key).await?;
        let is_emptied = keeps || !before.is_empty();
        if is_emptied {
            empty(&chats, &key).await?;
        } else {
            chats.delete_session(&key).await?;
        }
        chats.upsert_session_meta(&key, scope, aliases).await?;
        chats.adopt_lines(&key, lines).await?;
        if !summary.is_empty() {
            chats.set_summary(&key, &summary).await?;
        }
        if is_emptied && !keeps {
            let newest = before.last().map_or(0, |backup| backup.number);
            let made = move |stored: Vec<Stored>, _| {
                let stored = stored.into_iter();
                stored.filter(|one| one.name.number > newest).collect()
            };
            chats.remove_backups(&key, made).await?;
        }
        Ok(())
    })
}

/// Takes everything from a session but its backups: deleted, it would lose them.
async fn empty(chats: &StoreHandle, key: &str) -> Result<()> {
    chats.context(key).clear().await?;
    chats.set_summary(key, "").await?;
    // The scope of another conversation would be refused in the place of its own.
    chats.upsert_session_meta(key, None, Vec::new()).await
}
