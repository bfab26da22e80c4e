//! Whole sessions of a directory, for who copies them.

use crate::disk::files::backup::{Name, Stored};
use crate::disk::files::once;
use crate::disk::session_file::{self, Carried, SessionTags, TagChange};
use crate::engine::shard::verbs::append::Append;
use crate::engine::shard::verbs::update::Dates;
use crate::engine::shard::verbs::whole::Whole;
use crate::front::handle::blocking;
use crate::front::reply::Reply;
use crate::{BackupReason, Durability, Message, RawValue, Result, StoreHandle};

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
/// summary, scope and aliases. The tags stay. If it `keeps` what was there, that becomes a backup
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
        let tags = chats.session_meta(&key).await?.tags;
        let is_emptied = keeps || !before.is_empty();
        if is_emptied {
            empty(&chats, &key).await?;
        } else {
            chats.delete_for_good(&key).await?;
            // After a crash no backup that comes next is taken for one of the deleted session.
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
            let made = move |stored: Vec<Stored>, _| {
                let stored = stored.into_iter();
                stored.filter(|one| one.name.number > newest).collect()
            };
            chats.remove_backups(&key, made).await?;
        }
        Ok(())
    })
}

/// Puts tags in the place of all that a session has, the fields included that this crate does not
/// know. A session that is not there is made.
pub fn put_tags(chats: &StoreHandle, key: &str, tags: SessionTags) -> Reply<()> {
    let chats = chats.exact_keys();
    chats.change_tags(key, TagChange::whole(tags))
}

/// Appends lines, each ended by LF, all of which are messages: `count` of them.
pub fn append_lines(chats: &StoreHandle, key: &str, lines: Vec<u8>, count: u32) -> Reply<()> {
    let append = Append {
        lines,
        count,
        once: None,
        level: Durability::Durable,
    };
    chats.exact_keys().ask(key, append)
}

/// A backup, to be put elsewhere.
#[derive(Clone, Debug)]
pub struct KeptBackup {
    /// Its number: it keeps it, unless as high a one was given there.
    pub number: u64,
    /// When it was made, milliseconds since 1970.
    pub made: i64,
    /// Why.
    pub reason: BackupReason,
    /// How many of its lines were hidden.
    pub hidden: u64,
    /// Its lines, each ended by LF.
    pub lines: Vec<u8>,
}

/// The backup of that number; nothing if there is none.
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

/// Adds a backup to those of a session, which must be there.
pub fn put_backup(chats: &StoreHandle, key: &str, backup: KeptBackup) -> Reply<()> {
    let name = Name {
        stem: String::new(),
        number: backup.number,
        reason: backup.reason,
        millis: backup.made.max(0),
        skip: backup.hidden,
    };
    chats.exact_keys().keep_backup(key, name, backup.lines)
}

/// The ids of the messages that a session took once, as far as they are remembered, the oldest
/// first.
pub fn message_ids_of(chats: &StoreHandle, key: &str) -> Reply<Vec<String>> {
    let (chats, key) = (chats.exact_keys(), key.to_owned());
    Reply::from_future(async move {
        let (_, [newest, old]) = chats.ask(&key, Whole).await?;
        Ok(once::ids(&key, &old)
            .chain(once::ids(&key, &newest))
            .collect())
    })
}

/// How many ids of messages of a session are remembered at least; of a store opened read-only
/// `usize::MAX`, which forgets none.
#[must_use]
pub fn once_ids(chats: &StoreHandle) -> usize {
    chats.once_ids()
}

/// Has a session remember ids as those of messages that it took once, the oldest first. Durable
/// with the next change that is.
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

/// Says when a session was made and last changed, in RFC 3339. The creation
/// time only moves back.
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

/// Takes everything from a session but its backups: deleted, it would lose them.
async fn empty(chats: &StoreHandle, key: &str) -> Result<()> {
    chats.context(key).clear().await?;
    chats.set_summary(key, "").await?;
    // The scope of another conversation would be refused in the place of its own.
    chats.upsert_session_meta(key, None, Vec::new()).await
}
