//! One session of a store.

use std::sync::Arc;

use sessionlog_core::error::{CheckpointId, Version};
use sessionlog_core::exchange::{Export, ExportOptions, Format, Transcript};
use sessionlog_core::messages::Messages;
use sessionlog_core::position::{Keep, Position};
use sessionlog_core::session_file::SessionMeta;
use sessionlog_core::update::{Appended, Update};

use crate::Message;
use crate::disk::files::backup::Backup;
use crate::front::appending::{SessionPlace, To};
use crate::front::context::{Context, Fork};
use crate::front::handle::moving::Merged;
use crate::front::handle::{BackupLimits, StoreHandle};
use crate::front::reply::Reply;
use crate::front::snapshot::SessionSnapshot;
use crate::front::watch::Watch;
use crate::front::window::{Budget, Window};

/// One session: the verbs of a [`StoreHandle`] without the key that they begin with.
///
/// Making one does not look at the store and creates nothing. Each verb resolves the key, as the
/// handle's verbs do: an alias is followed to the session it means. The value remembers the place
/// of the session that has the key itself, so that appends do not look it up again. Cloning is
/// cheap.
///
/// ```
/// # use sessionlog::Store;
/// # fn main() -> sessionlog::Result<()> {
/// # let scratch = tempfile::tempdir().unwrap();
/// # let store = Store::open(scratch.path())?;
/// let chat = store.handle().session("telegram:123");
/// chat.add_message("user", "hi").wait()?;
/// chat.set_summary("a greeting").wait()?;
/// assert_eq!(chat.history().wait()?.len(), 1);
/// # store.close()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Session {
    handle: StoreHandle,
    key: Arc<str>,
    place: SessionPlace,
}

/// Verbs that do the same as the handle's verb of that name.
macro_rules! verbs {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        impl Session {
            $(
                #[doc = concat!("As [`StoreHandle::", stringify!($name), "`].")]
                ///
                /// # Errors
                #[doc = concat!("As [`StoreHandle::", stringify!($name), "`].")]
                pub fn $name(&self, $($argument: $kind),*) -> Reply<$answer> {
                    self.handle.$name(&self.key, $($argument),*)
                }
            )*
        }
    };
}

verbs! {
    append_after(position: Position, messages: impl Into<Messages>) -> Version;
    append_once(id: &str, messages: impl Into<Messages>) -> Appended;
    archived(month: &str) -> Vec<Message>;
    archived_months() -> Vec<String>;
    checkpoints() -> Vec<CheckpointId>;
    compact() -> ();
    count() -> usize;
    delete_for_good() -> ();
    delete_session() -> ();
    edit(position: Position, message: Message) -> Version;
    exists() -> bool;
    export(options: impl Into<ExportOptions>) -> Export;
    fork_session(to: &str, at: Fork) -> ();
    history() -> Vec<Message>;
    import(format: Format, text: &str) -> usize;
    import_transcript(transcript: Transcript) -> ();
    list_backups() -> Vec<Backup>;
    merge_session(into: &str) -> Merged;
    prune_backups(limits: BackupLimits) -> usize;
    remove(position: Position) -> Version;
    rename_session(to: &str) -> ();
    resolve_session_key() -> Option<String>;
    restore_backup(number: u64) -> ();
    session_meta() -> SessionMeta;
    set_history(messages: Vec<Message>) -> ();
    set_history_at(version: Version, messages: Vec<Message>) -> Version;
    set_pinned(pinned: bool) -> ();
    set_summary(summary: &str) -> ();
    set_title(title: &str) -> ();
    snapshot() -> SessionSnapshot;
    subscribe() -> Watch;
    summary() -> String;
    tail(n: usize) -> Vec<Message>;
    truncate_history(keep_last: usize) -> ();
    truncate_to(keep: Keep) -> ();
    undelete() -> String;
    update(update: Update) -> Version;
    window(budget: Budget) -> Window;
}

impl Session {
    pub(crate) fn of(handle: StoreHandle, key: &str) -> Self {
        Self {
            handle,
            key: key.into(),
            place: SessionPlace::default(),
        }
    }

    /// The key that this was made with.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// As [`StoreHandle::add_message`].
    ///
    /// # Errors
    /// As [`StoreHandle::add_message`].
    pub fn add_message(&self, role: &str, content: &str) -> Reply<()> {
        self.handle.add_text(self.to(), role, content)
    }

    /// As [`StoreHandle::add_full_message`].
    ///
    /// # Errors
    /// As [`StoreHandle::add_full_message`].
    pub fn add_full_message(&self, message: Message) -> Reply<()> {
        self.handle.add_all(self.to(), [message])
    }

    /// As [`StoreHandle::append_all`].
    ///
    /// # Errors
    /// As [`StoreHandle::append_all`].
    pub fn append_all(&self, messages: Vec<Message>) -> Reply<()> {
        self.handle.add_all(self.to(), messages)
    }

    /// As [`StoreHandle::set_labels`].
    ///
    /// # Errors
    /// As [`StoreHandle::set_labels`].
    pub fn set_labels<L: Into<String>>(&self, labels: impl IntoIterator<Item = L>) -> Reply<()> {
        self.handle.set_labels(&self.key, labels)
    }

    /// As [`StoreHandle::context`].
    #[must_use]
    pub fn context(&self) -> Context {
        self.handle.context(&self.key)
    }

    fn to(&self) -> To<'_> {
        To {
            key: &self.key,
            place: Some(&self.place),
        }
    }
}
