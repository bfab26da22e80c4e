//! Whole sessions of a directory, for copying.

use sessionlog_core::rules::dates::Dates;
use sessionlog_core::session_file::{self, CarriedControls, SessionTags, TagChange};

use crate::disk::files::backup::{BackupFile, BackupName};
use crate::disk::files::once;
use crate::engine::shard::verbs::append::Append;
use crate::engine::shard::verbs::whole::Whole;
use crate::front::handle::blocking;
use crate::front::reply::Reply;
use crate::{BackupReason, Durability, Message, RawValue, Result, StoreHandle};

/// The lines of a session, each ended by LF: the hidden control records that are still in effect,
/// then the visible lines, as bytes. Empty for a session that does not exist.
pub fn lines_of(chats: &StoreHandle, key: &str) -> Reply<Vec<u8>> {
    let (chats, key) = (chats.clone(), key.to_owned());
    Reply::lookup(move |place| {
        Box::pin(blocking(place, move || {
            let (lines, start) = chats.all_lines(&key)?;
            Ok(without_hidden(&lines, start))
        }))
    })
}

/// Removes the hidden lines, those before `start`. Keeps the last hidden control record of each
/// kind, and all other lines as they are. Each is ended by LF.
#[must_use]
pub fn without_hidden(lines: &[u8], start: usize) -> Vec<u8> {
    let (hidden, live) = lines.split_at(start.min(lines.len()));
    let mut carried = CarriedControls::default();
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

/// Replaces the session under a key with these lines, each ended by LF, summary, scope and aliases.
/// The tags stay. If it `keeps` the old session, that becomes a backup
/// ([`BackupReason::Clear`](crate::BackupReason::Clear)); otherwise the old one is gone. Existing
/// backups stay. Takes several steps; if cut short, it has to be repeated.
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
        let tags = chats.session_meta(&key).await?.tags;
        let is_emptied = keeps || !before.is_empty();
        if is_emptied {
            empty(&chats, &key).await?;
        } else {
            chats.delete_for_good(&key).await?;
            // After a crash no later backup is taken for one of the deleted session.
            chats.flush().await?;
        }
        chats.upsert_session_meta(&key, scope, aliases).await?;
        chats.adopt_lines(&key, lines).await?;
        if !summary.is_empty() {
            chats.set_summary(&key, &summary).await?;
        }
        if !is_emptied && !tags.is_empty() {
            put_tags(&chats, &key, tags).await?;
        }
        if is_emptied && !keeps {
            let newest = before.last().map_or(0, |backup| backup.number);
            let made = move |stored: Vec<BackupFile>, _| {
                let stored = stored.into_iter();
                stored.filter(|one| one.name.number > newest).collect()
            };
            chats.remove_backups(&key, made).await?;
        }
        Ok(())
    })
}

/// Replaces all tags of a session, including unknown fields. A session that does not exist is
/// created.
pub fn put_tags(chats: &StoreHandle, key: &str, tags: SessionTags) -> Reply<()> {
    let chats = chats.exact_keys();
    chats.change_tags(key, TagChange::whole(tags))
}

/// Appends `count` lines, each ended by LF; all of them are messages.
pub fn append_lines(chats: &StoreHandle, key: &str, lines: Vec<u8>, count: u32) -> Reply<()> {
    let append = Append {
        lines,
        count,
        once: None,
        level: Durability::Durable,
    };
    chats.exact_keys().ask(key, append)
}

/// A backup, to be copied elsewhere.
#[derive(Clone, Debug)]
pub struct KeptBackup {
    /// Its number. It is kept, unless the destination gave as high a one already.
    pub number: u64,
    /// The time it was made, in milliseconds since 1970.
    pub made: i64,
    /// The reason.
    pub reason: BackupReason,
    /// The number of its lines that were hidden.
    pub hidden: u64,
    /// Its lines, each ended by LF.
    pub lines: Vec<u8>,
}

/// The backup with this number; `None` if there is none.
pub fn backup_of(chats: &StoreHandle, key: &str, number: u64) -> Reply<Option<KeptBackup>> {
    let (chats, key) = (chats.exact_keys(), key.to_owned());
    Reply::lookup(move |place| {
        Box::pin(blocking(place, move || {
            let found = chats.backup_file(&key, number)?;
            Ok(found.map(|(name, lines)| KeptBackup {
                number,
                made: name.millis,
                reason: name.reason,
                hidden: name.skip,
                lines,
            }))
        }))
    })
}

/// Adds a backup to those of a session, which must exist.
pub fn put_backup(chats: &StoreHandle, key: &str, backup: KeptBackup) -> Reply<()> {
    let name = BackupName {
        stem: String::new(),
        number: backup.number,
        reason: backup.reason,
        millis: backup.made.max(0),
        skip: backup.hidden,
    };
    chats.exact_keys().keep_backup(key, name, backup.lines)
}

/// The remembered ids of the messages that a session took once, oldest first.
pub fn message_ids_of(chats: &StoreHandle, key: &str) -> Reply<Vec<String>> {
    let (chats, key) = (chats.exact_keys(), key.to_owned());
    Reply::from_future(async move {
        let (_, [newest, old]) = chats.ask(&key, Whole).await?;
        Ok(once::ids(&key, &old)
            .chain(once::ids(&key, &newest))
            .collect())
    })
}

/// The least number of message ids that are remembered for a session; for a store opened read-only
/// `usize::MAX`, which forgets none.
#[must_use]
pub fn once_ids(chats: &StoreHandle) -> usize {
    chats.once_ids()
}

/// Makes a session remember these ids as taken once, oldest first. Durable with the next durable
/// change.
pub fn put_message_ids(chats: &StoreHandle, key: &str, ids: Vec<String>) -> Reply<()> {
    let chats = chats.exact_keys().with_durability(Durability::Buffered);
    let key = key.to_owned();
    Reply::from_future(async move {
        for id in ids {
            chats.append_once(&key, &id, Vec::<Message>::new()).await?;
        }
        Ok(())
    })
}

/// Sets the times when a session was created and last changed, in RFC 3339. The creation time only
/// moves back.
pub fn date_session(
    chats: &StoreHandle,
    key: &str,
    created: Option<String>,
    updated: Option<String>,
) -> Reply<()> {
    let dates = Dates {
        created,
        updated,
        keep_later: false,
    };
    chats.exact_keys().date(key, dates)
}

/// Removes everything from a session except its backups: a deletion would remove those, too.
async fn empty(chats: &StoreHandle, key: &str) -> Result<()> {
    chats.context(key).clear().await?;
    chats.set_summary(key, "").await?;
    // A scope of another conversation would be refused in the place of its own.
    chats.upsert_session_meta(key, None, Vec::new()).await
}
