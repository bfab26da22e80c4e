//! One transaction over the rows of some sessions. They are locked in one round trip, changed in
//! memory, and written and committed in another. If this process knows the sessions, one round trip
//! is enough.

mod at_once;
mod commit;
mod once;
mod rows;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use sessionlog::backend::kit::{self, UpdateDecision};
use sessionlog::{ChangeKind, Position, Result, Version};
use tokio_postgres::types::Type;

use self::commit::Opening;
pub(crate) use self::commit::{Committed, as_race};
use self::once::Forgotten;
use crate::command::{Order, Outcome, Update};
use crate::connection::{Connection, Param};
use crate::context::Shared;
use crate::fault::{Fault, Tried};
use crate::row::{NewLine, Notice, Session};

/// The session that an alias means.
#[derive(Clone, Debug)]
struct Claim {
    key: String,
    /// True if the alias is an earlier key of that session.
    was_key: bool,
}

/// A transaction under way.
pub(crate) struct Transaction<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) shared: &'a Shared,
    opening: Opening,
    /// The number of times that the lane asked for a commit after the answer was lost.
    pub(crate) settled: i64,
    /// True if its commit waits for a replica, if the server told it.
    waits: Option<bool>,
    /// True if nothing was sent yet, and the sessions are in the state that this process knows.
    is_presumed: bool,
    /// The sessions by key. Sessions that are gone are not among them.
    pub(crate) sessions: HashMap<String, Session>,
    /// The session that an alias means.
    claims: HashMap<String, Claim>,
    /// Keys that were presumed to be no alias of another session.
    unclaimed: Vec<&'a str>,
    /// The ids that each session took before.
    taken: HashSet<(i64, Vec<u8>)>,
    lines: Vec<(i64, i64, Cow<'a, NewLine>)>,
    /// Ids to be remembered, each with its turn among those of its session.
    ids: Vec<(i64, i64, &'a str)>,
    /// The ids of a session that are forgotten.
    outworn: HashMap<i64, Forgotten>,
    notices: Vec<Notice>,
    is_followed: bool,
}

impl<'a> Transaction<'a> {
    fn of(connection: &'a Connection, shared: &'a Shared, opening: Opening) -> Self {
        Self {
            connection,
            shared,
            opening,
            settled: 0,
            waits: None,
            is_presumed: false,
            sessions: HashMap::new(),
            claims: HashMap::new(),
            unclaimed: Vec::new(),
            taken: HashSet::new(),
            lines: Vec::new(),
            ids: Vec::new(),
            outworn: HashMap::new(),
            notices: Vec::new(),
            is_followed: false,
        }
    }

    /// Begins: notes `token` as the lane's, and locks the sessions of the orders.
    pub(crate) async fn begin(
        connection: &'a Connection,
        shared: &'a Shared,
        mark: (i64, i64),
        orders: &[&'a Order],
    ) -> Tried<Self> {
        let (mut keys, mut names) = (Vec::new(), Vec::new());
        for order in orders {
            for key in order.keys() {
                let trimmed = key.trim();
                keys.push(key);
                if trimmed != key {
                    keys.push(trimmed);
                }
                if order.asks_for_aliases() {
                    names.push(trimmed);
                }
            }
        }
        keys.sort_unstable();
        keys.dedup();
        names.sort_unstable();
        names.dedup();
        let mut transaction = Self::of(connection, shared, Opening::of(shared, mark, orders));
        transaction.lock(&keys, &names).await?;
        transaction.look_for_ids(orders).await?;
        Ok(transaction)
    }

    async fn lock(&mut self, keys: &[&str], names: &[&str]) -> Tried<()> {
        let sql = &self.shared.sql;
        let claimed: [Param<'_>; 1] = [(&names, Type::TEXT_ARRAY)];
        let locked: [Param<'_>; 2] = [(&keys, Type::TEXT_ARRAY), (&names, Type::TEXT_ARRAY)];
        // These are polled in this order, so they are sent in it, and all at once. Aliases are read
        // after the locks. While this waits for a row, its session may get another key and leave
        // the old one as an alias. Without the alias a second session of the old key would be made.
        let (settled, rows, claims) = tokio::join!(
            self.opening.send(self.connection, self.shared),
            self.connection.query(&sql.lock_sessions, &locked),
            self.connection.query(&sql.claims, &claimed),
        );
        (self.settled, self.waits) = settled?;
        // The first failure has the reason. Later statements fail with the transaction.
        let (rows, claims) = (rows?, claims?);
        let is_followed = claims.first().is_some_and(|row| row.get(0));
        self.is_followed = self.shared.note_followers(is_followed);
        let sessions: Vec<Session> = rows.iter().map(Session::of).collect();
        self.shared.known.compare(&sessions);
        let keys_by_id: HashMap<_, _> = sessions.iter().map(|one| (one.id, &one.key)).collect();
        for row in claims {
            let Some(id) = row.get::<_, Option<i64>>(2) else {
                continue;
            };
            let Some(key) = keys_by_id.get(&id) else {
                return Err(Fault::Again("an alias changed hands meanwhile".into()));
            };
            let claim = Claim {
                key: (*key).clone(),
                was_key: row.get(3),
            };
            self.claims.insert(row.get(1), claim);
        }
        let sessions = sessions.into_iter().map(|one| (one.key.clone(), one));
        self.sessions = sessions.collect();
        Ok(())
    }

    /// Returns the key of the session that an order is for. The session need not exist.
    ///
    /// # Errors
    /// `InvalidKey`.
    pub(crate) fn resolve(&self, order: &Order) -> Result<String> {
        let key = self.meant(&order.key, order.exact)?;
        if !order.exact || !order.verb.goes_along() || self.sessions.contains_key(&key) {
            return Ok(key);
        }
        let claim = self.claims.get(key.trim()).filter(|claim| claim.was_key);
        Ok(claim.map_or(key, |claim| claim.key.clone()))
    }

    /// Does the same for any key that the order names.
    pub(crate) fn meant(&self, key: &str, exact: bool) -> Result<String> {
        kit::check_key(key)?;
        if exact {
            return Ok(key.to_owned());
        }
        let has = |key: &str| self.sessions.contains_key(key);
        let claimant = |key: &str| self.claimant(key).filter(|claimant| has(claimant));
        Ok(kit::resolve(key, has, claimant).unwrap_or_else(|| key.to_owned()))
    }

    /// Returns the key of the session that has this key as an alias, the first by file name if
    /// several do. It does so also if the key means its own session.
    pub(crate) fn claimant(&self, key: &str) -> Option<&str> {
        self.claims.get(key).map(|claim| &*claim.key)
    }

    /// Carries out an update that needs the session's row and no other.
    ///
    /// # Errors
    /// Those of the verb. The session is unchanged then.
    pub(crate) fn update(&mut self, key: &str, update: &'a Update) -> Result<Outcome> {
        if let Some(outcome) = self.is_settled(key, update)? {
            return Ok(outcome);
        }
        Ok(self.make(key, update, update.kind(false)))
    }

    /// Makes the change of an update, except for hidden lines and tags.
    pub(crate) fn make(&mut self, key: &str, update: &'a Update, kind: ChangeKind) -> Outcome {
        let session = self.session(key);
        let had_lines = session.lines > 0;
        let before = had_lines.then(|| session.updated_at.clone());
        if let Some(summary) = &update.summary {
            session.set_summary(summary);
        }
        if let Some(once) = &update.once {
            self.remember(key, once);
        }
        for line in &update.lines {
            self.push(key, Cow::Borrowed(line));
        }
        let changed = self.changed(key, kind);
        if let Some(carried) = &update.carried {
            self.carry(key, carried);
        }
        if let Some(dates) = &update.dates {
            self.session(key).date_as(dates, before.as_deref());
        }
        changed
    }

    /// Returns the outcome of an update without a change, if there is nothing to change.
    ///
    /// # Errors
    /// `VersionConflict`, `PositionNotFound`.
    pub(crate) fn is_settled(&self, key: &str, update: &Update) -> Result<Option<Outcome>> {
        let session = self.sessions.get(key);
        let found = session.map_or(Version::ABSENT, Session::version);
        let goes_on = |after: Position| {
            session.is_some_and(|one| one.history.cast_unsigned() == after.history())
        };
        let took = || match (session, &update.once) {
            (Some(session), Some(id)) => Ok(self.has_taken(session, id)),
            _ => Ok(false),
        };
        let decided = update.order().decide(key, found, goes_on, took)?;
        Ok(match decided {
            UpdateDecision::Make => None,
            UpdateDecision::Nothing => Some(Outcome::Updated(found, true)),
            UpdateDecision::Duplicate => Some(Outcome::Updated(found, false)),
        })
    }

    /// Returns the session of a key. Makes it if needed.
    pub(crate) fn session(&mut self, key: &str) -> &mut Session {
        let made = || Session::made(key);
        self.sessions.entry(key.to_owned()).or_insert_with(made)
    }

    /// Adds a line at the end.
    pub(crate) fn push(&mut self, key: &str, line: Cow<'a, NewLine>) {
        let session = self.session(key);
        let (id, at) = (session.id, session.end_at);
        session.end_at += line.len();
        session.lines += 1;
        session.messages += i64::from(line.kind == crate::row::MESSAGE);
        self.lines.push((id, at, line));
    }

    /// Adds a line at a place of a session. The caller adds it to the session's counts.
    pub(crate) fn put(&mut self, (id, at): (i64, i64), line: NewLine) {
        self.lines.push((id, at, Cow::Owned(line)));
    }

    /// Notes that the session was changed: gives it another version, and tells followers.
    pub(crate) fn changed(&mut self, key: &str, kind: ChangeKind) -> Outcome {
        let session = self.session(key);
        session.touch();
        let version = session.version();
        self.tell(key, kind);
        Outcome::Updated(version, true)
    }

    /// Tells followers the present state of a session.
    pub(crate) fn tell(&mut self, key: &str, kind: ChangeKind) {
        if self.is_followed {
            let notice = Notice::of(self.session(key), kind);
            self.notices.push(notice);
        }
    }

    /// Notes that the session of a key is gone: the caller removed its rows, or gave them another
    /// key.
    pub(crate) fn gone(&mut self, key: &str) {
        if let Some(mut session) = self.sessions.remove(key) {
            session.version += 1;
            if self.is_followed {
                self.notices.push(Notice::of(&session, ChangeKind::Deleted));
            }
        }
    }
}

/// Returns the channel on which a store notifies.
pub(crate) fn channel(schema: &str) -> String {
    format!("sessionlog_{schema}")
}

/// Returns the number of the lock that a follower takes when it begins. While it holds the lock, no
/// writer that does not know of it is under way.
pub(crate) fn follower_gate(schema: &str) -> i64 {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(format!("sessionlog followers {schema}"));
    i64::from_be_bytes(hash[..8].try_into().unwrap_or_default())
}
