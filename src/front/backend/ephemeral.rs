//! A store that lasts as long as the process.

use sessionlog_core::scope::SessionScope;

use super::book::BookLimits;
use super::desk::Desk;
use super::store::{SessionStore, StoreKind};
use super::verbs::verbs_of;
use crate::{Merged, Message, Reply};

/// The bounds of an [`EphemeralStore`]. Every bound has a default; values outside their range are
/// clamped.
#[derive(Clone, Debug)]
pub struct EphemeralOptions {
    limits: BookLimits,
}

impl Default for EphemeralOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl EphemeralOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            limits: BookLimits {
                sessions: 1024,
                messages: 50,
                bytes: 64 << 20,
                ..BookLimits::none()
            },
        }
    }

    /// Messages per session; the oldest are dropped first. Default: 50, as in PicoClaw. At least 1.
    #[must_use]
    pub fn max_messages(mut self, messages: usize) -> Self {
        self.limits.messages = messages.max(1);
        self
    }

    /// Sessions; the one not written to for longest is dropped first. Default: 1,024. At least 1.
    #[must_use]
    pub fn max_sessions(mut self, sessions: usize) -> Self {
        self.limits.sessions = sessions.max(1);
        self
    }

    /// Bytes of all messages, encoded as lines, summaries, scopes, aliases and ids of messages
    /// taken once. If the session written to is over the bound alone, its oldest messages are
    /// dropped first; then the sessions not written to for longest. A message, a summary, or a
    /// scope with aliases is refused as too large if it does not fit beside the parts of its
    /// session that are no messages. Default: 64 MiB. At least 1 KiB.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.limits.bytes = bytes.max(1 << 10);
        self
    }
}

/// A [`SessionStore`] in memory, for conversations that are not needed again: the sub-turns of an
/// agent, tests. Nothing is ever written; [`save`](SessionStore::save) does nothing. Bounded: see
/// [`EphemeralOptions`]. Data over a bound is dropped silently.
///
/// ```
/// use sessionlog::backend::{EphemeralOptions, EphemeralStore, SessionStore};
///
/// # fn main() -> sessionlog::Result<()> {
/// let turns = EphemeralStore::with(EphemeralOptions::new().max_messages(2));
/// for text in ["one", "two", "three"] {
///     turns.add_message("sub-turn", "user", text).wait()?;
/// }
/// let kept = turns.history("sub-turn").wait()?;
/// assert_eq!(kept.iter().map(|m| m.text()).collect::<Vec<_>>(), ["two", "three"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct EphemeralStore {
    desk: Desk,
}

impl Default for EphemeralStore {
    fn default() -> Self {
        Self::new()
    }
}

impl EphemeralStore {
    /// An empty store with the default bounds.
    #[must_use]
    pub fn new() -> Self {
        Self::with(EphemeralOptions::new())
    }

    /// An empty store.
    #[must_use]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a chain of option setters ends in a value"
    )]
    pub fn with(options: EphemeralOptions) -> Self {
        Self {
            desk: Desk::new(options.limits),
        }
    }
}

impl SessionStore for EphemeralStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Ephemeral
    }

    verbs_of!(desk);

    fn append_once(&self, key: &str, id: &str, messages: Vec<Message>) -> Reply<crate::Appended> {
        self.desk.append_once(key, id, messages)
    }

    fn save(&self, key: &str) -> Reply<()> {
        self.desk.work_on(key, |_, _| Ok(()))
    }

    fn delete_session(&self, key: &str) -> Reply<()> {
        self.desk.work_on(key, |book, key| {
            book.remove(&key);
            Ok(())
        })
    }

    fn ensure_session_metadata(
        &self,
        key: &str,
        scope: Option<&SessionScope>,
        aliases: Vec<String>,
    ) -> Reply<bool> {
        self.desk.ensure_session_metadata(key, scope, aliases)
    }

    fn session_scope(&self, key: &str) -> Reply<Option<SessionScope>> {
        self.desk.session_scope(key)
    }

    fn rename_session(&self, old: &str, new: &str) -> Reply<()> {
        self.desk.move_session(old, new, false).and_then(|_| Ok(()))
    }

    fn merge_session(&self, old: &str, new: &str) -> Reply<Merged> {
        self.desk.move_session(old, new, true)
    }

    fn close(&self) -> Reply<()> {
        self.desk.close()
    }
}
