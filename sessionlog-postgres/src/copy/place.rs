//! The questions that a copy asks of a directory and of a database.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde_json::value::RawValue;
use sessionlog::backend::kit::{self, KeptBackup, TagChange};
use sessionlog::{
    Backup, BackupLimits, ChangeFilter, Changes, Error, Result, SessionQuery, SessionTags,
    StoreHandle, Version,
};
use sha2::{Digest, Sha256};
use tokio_postgres::types::Type;

use super::report::Left;
use crate::command::{Carried, Identity, Restore, Update, Verb};
use crate::connection::Param;
use crate::row::{MESSAGE, NewLine, Session, nanos_of};
use crate::store::PostgresStore;
use crate::write::done;

/// The source or the target of a copy.
#[derive(Clone, Debug)]
pub enum Place {
    /// A directory of session files, through its store.
    Directory(StoreHandle),
    /// A database.
    Database(PostgresStore),
}

/// The copied content of a session besides its lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Besides {
    exists: bool,
    /// Absent if the session is. A directory that is only read may not tell it.
    pub(super) version: Version,
    summary: String,
    scope: Option<String>,
    aliases: Vec<String>,
    /// Title, labels, pin and unknown fields, as a JSON object. Empty if there are none.
    tags: String,
    created_at: String,
    updated_at: String,
    /// The number of lines, hidden ones included.
    lines: i64,
    hidden: i64,
    ids: Vec<String>,
    backups: Vec<Backup>,
    /// True if it has an archive, which no copy takes along.
    has_archive: bool,
    /// True if its store was opened read-only, which tells neither ids nor the content of backups.
    is_only_read: bool,
}

/// A session in the form in which it is copied.
#[derive(Clone, Debug, Default)]
pub(super) struct Whole {
    pub(super) besides: Besides,
    /// The control records that are hidden but still in force, and the visible lines, each ended by
    /// LF.
    pub(super) lines: Vec<u8>,
}

/// The content that a copy lacks.
#[derive(Debug)]
pub(super) struct Lack {
    /// True if it differs in content that only a whole session brings.
    differs: bool,
    /// The lines that are to be added.
    lines: Vec<u8>,
    tags: Option<String>,
    ids: Vec<String>,
    is_dated: bool,
    pub(super) backups: Vec<u64>,
}

impl Lack {
    pub(super) fn of_ids(&self) -> usize {
        self.ids.len()
    }

    /// True if nothing but backups is lacking.
    pub(super) fn is_whole(&self) -> bool {
        !self.differs
            && self.lines.is_empty()
            && self.tags.is_none()
            && self.ids.is_empty()
            && self.is_dated
    }
}

impl Besides {
    pub(super) fn is_there(&self) -> bool {
        self.exists
    }

    fn identity(&self) -> Identity {
        let scope = self.scope.clone();
        Identity {
            scope: scope.and_then(|scope| RawValue::from_string(scope).ok()),
            aliases: self.aliases.clone(),
        }
    }

    /// Returns the newest ids, as many as the copy remembers.
    fn newest_ids(&self, most: usize) -> &[String] {
        &self.ids[self.ids.len().saturating_sub(most)..]
    }

    /// Returns the backups that the copy keeps.
    fn backups_within(&self, limits: BackupLimits) -> Vec<&Backup> {
        let all: Vec<_> = self
            .backups
            .iter()
            .map(|one| (made(one), one.clone()))
            .collect();
        let over = kit::backups_over(limits, &all, crate::backups::now_millis());
        let kept = self.backups.iter();
        kept.filter(|one| !over.contains(&one.number)).collect()
    }
}

/// Returns the time when a backup was made, in milliseconds since 1970.
fn made(backup: &Backup) -> i64 {
    nanos_of(&backup.created_at).map_or(0, |nanos| nanos / 1_000_000)
}

impl Whole {
    pub(super) fn count(&self) -> usize {
        kit::split_lines(&self.lines).count()
    }

    pub(super) fn digest(&self, key: &str) -> [u8; 32] {
        let mut hash = Sha256::new();
        let Besides {
            summary,
            scope,
            aliases,
            tags,
            ..
        } = &self.besides;
        let scope = scope.as_deref().unwrap_or_default();
        let texts = [key, summary, scope, tags];
        let texts = texts.into_iter().chain(aliases.iter().map(String::as_str));
        for part in texts.map(str::as_bytes).chain([&*self.lines]) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }

    /// Returns the parts of it that cannot go to a place.
    pub(super) fn left(&self, to: &Place) -> Vec<Left> {
        let from = &self.besides;
        let kept = from.backups_within(to.backup_limits());
        let is_conflict = |one: &&Backup| one.reason == sessionlog::BackupReason::Conflict;
        let copied = i64::try_from(self.count()).unwrap_or(i64::MAX);
        [
            (from.is_only_read, Left::Unread),
            (from.hidden > 0 && from.lines > copied, Left::Hidden),
            (from.ids.len() > to.once_ids(), Left::Ids),
            (kept.len() < from.backups.len(), Left::Backups),
            (kept.iter().any(is_conflict), Left::Sidecars),
            (from.has_archive, Left::Archive),
        ]
        .into_iter()
        .filter_map(|(is_left, what)| is_left.then_some(what))
        .collect()
    }

    /// Returns the content that a copy lacks. The copy has `there` besides its lines, and lacks the
    /// lines `added`. `added` is `None` if the copy's lines are others.
    pub(super) fn lacking(&self, to: &Place, there: &Besides, added: Option<&[u8]>) -> Lack {
        let from = &self.besides;
        let is_younger = |other: &str| match (nanos_of(&from.created_at), nanos_of(other)) {
            (Some(own), Some(other)) => other > own,
            _ => false,
        };
        let is_dated =
            nanos_of(&from.updated_at).is_none_or(|own| nanos_of(&there.updated_at) == Some(own));
        let mut known: Vec<_> = there.backups.iter().collect();
        let backups = from.backups_within(to.backup_limits()).into_iter();
        let backups = backups.filter(|own| {
            let same = |other: &&Backup| {
                (&other.created_at, other.reason) == (&own.created_at, own.reason)
            };
            let found = known.iter().position(same);
            found.map(|at| known.remove(at)).is_none()
        });
        let ids = from.newest_ids(to.once_ids()).iter();
        let taken: BTreeSet<_> = there.ids.iter().collect();
        Lack {
            differs: added.is_none()
                || !there.is_there()
                || from.summary != there.summary
                || from.scope != there.scope
                || from.aliases != there.aliases
                || is_younger(&there.created_at),
            lines: added.unwrap_or_default().to_vec(),
            tags: (from.tags != there.tags).then(|| from.tags.clone()),
            ids: ids.filter(|id| !taken.contains(id)).cloned().collect(),
            is_dated,
            backups: backups.map(|own| own.number).collect(),
        }
    }
}

fn new_lines(bytes: &[u8]) -> Vec<NewLine> {
    let lines = kit::split_lines(bytes);
    lines.map(|line| NewLine::read(line.to_vec())).collect()
}

/// Returns tags in the form in which they are compared.
fn text_of(tags: &SessionTags) -> String {
    if *tags == SessionTags::default() {
        return String::new();
    }
    kit::encode_tags(tags)
}

/// Returns the change that replaces all tags.
fn whole_tags(tags: &str) -> TagChange {
    TagChange::whole(kit::decode_tags(tags))
}

/// Longer additions are not appended to a session of a directory, which takes a batch whole.
const BATCH: usize = 1 << 20;

impl Place {
    pub(super) async fn keys(&self) -> Result<BTreeSet<String>> {
        let keys = match self {
            Self::Directory(chats) => chats.list_sessions().await?,
            Self::Database(store) => store.list_sessions().await?,
        };
        Ok(keys.into_iter().collect())
    }

    /// Returns the keys of sessions in the trash.
    pub(super) async fn trash(&self) -> Result<Vec<String>> {
        let Self::Directory(chats) = self else {
            return Ok(Vec::new());
        };
        let query = SessionQuery::new().deleted().limit(usize::MAX);
        let trash = chats.sessions(query).await?.sessions.into_iter();
        Ok(trash.map(|session| session.key).collect())
    }

    /// Returns the version of every session. Returns nothing for a directory, which tells of
    /// changes before their callers are answered.
    pub(super) async fn versions(&self) -> Result<Option<BTreeMap<String, Version>>> {
        let Self::Database(store) = self else {
            return Ok(None);
        };
        let shared = store.inner.shared.clone();
        let read = store.work(async move {
            let read = shared.read_bulk(|shared, connection| {
                Box::pin(async move {
                    let sql = shared
                        .sql
                        .fill("SELECT key, version FROM {schema}.sessions");
                    let rows = connection.query(&sql, &[]).await?;
                    let versions = rows
                        .iter()
                        .map(|row| (row.get(0), crate::row::version(row.get(1))));
                    Ok(versions.collect())
                })
            });
            read.await
        });
        Ok(Some(read.await?))
    }

    /// True if it is a directory that is open for reading only.
    pub(super) fn is_only_read(&self) -> bool {
        matches!(self, Self::Directory(chats) if kit::once_ids(chats) == usize::MAX)
    }

    /// Returns the number of message ids of a session that it remembers at least.
    fn once_ids(&self) -> usize {
        match self {
            Self::Directory(chats) => kit::once_ids(chats),
            Self::Database(store) => {
                let most = store.inner.shared.options.once_ids;
                usize::try_from(most).unwrap_or(usize::MAX)
            }
        }
    }

    /// True if added lines may be written as a whole session, in several steps.
    pub(super) const fn replaces(&self) -> bool {
        matches!(self, Self::Directory(_))
    }

    fn backup_limits(&self) -> BackupLimits {
        match self {
            Self::Directory(_) => BackupLimits::new(),
            Self::Database(store) => store.inner.shared.options.backups,
        }
    }

    /// Reads a session besides its lines. A write while the lines are read makes it another
    /// version.
    pub(super) async fn besides(&self, key: &str) -> Result<Besides> {
        match self {
            Self::Directory(chats) => {
                let chats = chats.exact_keys();
                if !chats.exists(key).await? {
                    return Ok(Besides::default());
                }
                let version = chats.snapshot(key).await?.version();
                // The ids come first: if an id were copied without its message, a later copy of
                // that message would be refused.
                let (ids, is_only_read) = match kit::message_ids_of(&chats, key).await {
                    Err(Error::ReadOnly) => (Vec::new(), true),
                    ids => (ids?, false),
                };
                let meta = chats.session_meta(key).await?;
                let has_archive = !chats.archived_months(key).await?.is_empty();
                Ok(Besides {
                    exists: true,
                    version,
                    is_only_read,
                    summary: meta.summary,
                    scope: meta.scope.map(|scope| scope.get().to_owned()),
                    aliases: meta.aliases,
                    tags: text_of(&meta.tags),
                    created_at: meta.created_at,
                    updated_at: meta.updated_at,
                    lines: meta.count,
                    hidden: meta.skip,
                    ids,
                    backups: if is_only_read {
                        Vec::new()
                    } else {
                        chats.list_backups(key).await?
                    },
                    has_archive,
                })
            }
            Self::Database(store) => {
                let store = store.exact_keys();
                match store.row(key).await? {
                    Some(row) => of_row(&store, key, row).await,
                    None => Ok(Besides::default()),
                }
            }
        }
    }

    /// Reads the lines of an existing session.
    pub(super) async fn lines(&self, key: &str) -> Result<Vec<u8>> {
        match self {
            Self::Directory(chats) => kit::lines_of(&chats.exact_keys(), key).await,
            Self::Database(store) => {
                let store = store.exact_keys();
                let Some(row) = store.row(key).await? else {
                    return Ok(Vec::new());
                };
                let (lines, start) = store.raw_lines(&row).await?;
                Ok(kit::without_hidden(&lines, start))
            }
        }
    }

    pub(super) async fn read(&self, key: &str) -> Result<Whole> {
        let besides = self.besides(key).await?;
        let lines = if besides.is_there() {
            self.lines(key).await?
        } else {
            Vec::new()
        };
        Ok(Whole { besides, lines })
    }

    /// Writes all that is lacking except backups. The replaced content becomes a backup if `keeps`
    /// is true.
    pub(super) async fn write(
        &self,
        key: &str,
        (whole, lack): (&Whole, &Lack),
        (compared, keeps): (Version, bool),
    ) -> Result<()> {
        let from = &whole.besides;
        match self {
            Self::Directory(chats) => {
                let added = new_lines(&lack.lines);
                let is_appended = !lack.differs
                    && lack.lines.len() < BATCH
                    && added.iter().all(|line| line.kind == MESSAGE);
                if is_appended {
                    let count = u32::try_from(added.len()).unwrap_or(u32::MAX);
                    if count > 0 {
                        kit::append_lines(chats, key, lack.lines.clone(), count).await?;
                    }
                } else {
                    let Identity { scope, aliases } = from.identity();
                    let (lines, summary) = (whole.lines.clone(), from.summary.clone());
                    kit::put_session(chats, key, lines, summary, (scope, aliases), keeps).await?;
                }
                // A session that was made anew has forgotten them.
                let ids = if is_appended {
                    lack.ids.clone()
                } else {
                    from.newest_ids(self.once_ids()).to_vec()
                };
                kit::put_message_ids(chats, key, ids).await?;
                if let Some(tags) = &lack.tags {
                    kit::put_tags(chats, key, kit::decode_tags(tags)).await?;
                }
                let date = |text: &String| nanos_of(text).map(|_| text.clone());
                let (created, updated) = (date(&from.created_at), date(&from.updated_at));
                kit::date_session(chats, key, created, updated).await
            }
            Self::Database(store) => {
                let carried = Carried {
                    ids: lack.ids.clone(),
                    updated_at: from.updated_at.clone(),
                };
                let verb = if lack.differs {
                    Verb::Restore(Restore {
                        lines: new_lines(&whole.lines),
                        summary: from.summary.clone(),
                        tags: whole_tags(&from.tags),
                        identity: from.identity(),
                        created_at: from.created_at.clone(),
                        carried,
                        compared,
                        keeps,
                    })
                } else {
                    Verb::Update(Update {
                        lines: new_lines(&lack.lines),
                        tags: lack.tags.as_deref().map(whole_tags),
                        carried: Some(carried),
                        expect: Some(compared),
                        ..Update::default()
                    })
                };
                done(store.exact_keys().write(key, || Ok(verb))).await
            }
        }
    }

    pub(super) async fn backup(&self, key: &str, number: u64) -> Result<Option<KeptBackup>> {
        match self {
            Self::Directory(chats) => kit::backup_of(chats, key, number).await,
            Self::Database(store) => {
                let store = store.exact_keys();
                let backups = store.list_backups(key).await?.into_iter();
                let told = { backups }.find(|one| one.number == number);
                let row = store.row(key).await?;
                let (Some(told), Some(row)) = (told, row) else {
                    return Ok(None);
                };
                let (hidden, lines) = backup_lines(&store, row.id, number).await?;
                Ok(Some(KeptBackup {
                    number,
                    made: made(&told),
                    reason: told.reason,
                    hidden,
                    lines,
                }))
            }
        }
    }

    pub(super) async fn put_backup(&self, key: &str, backup: KeptBackup) -> Result<()> {
        match self {
            Self::Directory(chats) => kit::put_backup(chats, key, backup).await,
            Self::Database(store) => {
                let taken = store.exact_keys();
                done(taken.write(key, || Ok(Verb::TakeBackup(backup)))).await
            }
        }
    }

    pub(super) async fn delete(&self, key: &str) -> Result<()> {
        match self {
            Self::Directory(chats) => chats.exact_keys().delete_for_good(key).await,
            Self::Database(store) => store.exact_keys().delete_session(key).await,
        }
    }

    pub(super) async fn changes(&self) -> Result<Changes> {
        match self {
            Self::Directory(chats) => Ok(chats.changes(ChangeFilter::new())),
            Self::Database(store) => store.follow(ChangeFilter::new()).await,
        }
    }
}

async fn of_row(store: &PostgresStore, key: &str, row: Session) -> Result<Besides> {
    let (shared, id) = (store.inner.shared.clone(), row.id);
    let ids = store.work(async move {
        let read = shared.read(|shared, connection| {
            Box::pin(async move {
                let params: [Param<'_>; 1] = [(&id, Type::INT8)];
                let rows = connection.query(&shared.sql.message_ids, &params).await?;
                let text = |id: &[u8]| String::from_utf8_lossy(id).into_owned();
                Ok(rows.iter().map(|row| text(row.get(0))).collect())
            })
        });
        read.await
    });
    Ok(Besides {
        ids: ids.await?,
        backups: store.list_backups(key).await?,
        version: row.version(),
        lines: row.lines,
        hidden: row.hidden,
        summary: row.summary,
        scope: row.scope,
        aliases: row.aliases,
        tags: text_of(&row.tags),
        created_at: row.created_at,
        updated_at: row.updated_at,
        has_archive: false,
        is_only_read: false,
        exists: true,
    })
}

/// Returns the number of hidden lines of a backup, and all its lines.
async fn backup_lines(store: &PostgresStore, id: i64, number: u64) -> Result<(u64, Vec<u8>)> {
    let (shared, number) = (store.inner.shared.clone(), number.cast_signed());
    let read = store.work(async move {
        let read = shared.read_bulk(|shared, connection| {
            Box::pin(async move {
                let params: [Param<'_>; 2] = [(&id, Type::INT8), (&number, Type::INT8)];
                let found = connection.query(&shared.sql.backup, &params).await?;
                let start: i64 = found.first().map_or(0, |row| row.get(0));
                let (mut hidden, mut lines) = (0, Vec::new());
                let take = |row: &tokio_postgres::Row| {
                    hidden += u64::from(row.get::<_, i64>(0) < start);
                    lines.extend_from_slice(row.get(1));
                    lines.push(b'\n');
                    ControlFlow::Continue(())
                };
                let sql = &shared.sql.backup_lines;
                connection.each(sql, &params, take).await?;
                Ok((hidden, lines))
            })
        });
        read.await
    });
    read.await
}
