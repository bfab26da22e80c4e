//! One transaction over the rows of some sessions: locked in one round trip, changed in
//! memory, and written and committed in another.

mod once;
mod rows;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use sessionlog::backend::kit;
use sessionlog::{ChangeKind, Error, Result, Version};
use tokio_postgres::types::Type;

use self::rows::Rows;
use crate::command::{Order, Outcome, Update};
use crate::connection::{Connection, Param};
use crate::context::Shared;
use crate::fault::{Fault, Tried};
use crate::row::{NewLine, Notice, Session};

/// A transaction under way.
pub(crate) struct Transaction<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) shared: &'a Shared,
    /// By key; those that are gone are not among them.
    pub(crate) sessions: HashMap<String, Session>,
    /// The key of the session that an alias means.
    claims: HashMap<String, String>,
    /// Which ids each session took before.
    taken: HashSet<(i64, Vec<u8>)>,
    lines: Vec<(i64, i64, Cow<'a, NewLine>)>,
    /// Ids to be remembered, each with its turn among those of its session.
    ids: Vec<(i64, i64, &'a str)>,
    /// Up to which turn a session's ids are forgotten.
    outworn: HashMap<i64, i64>,
    notices: Vec<Notice>,
    is_followed: bool,
}

/// What of a transaction was sent last, and what came back.
pub(crate) enum Committed {
    Yes,
    /// Rolled back, all of it.
    No(Fault),
    /// It is to be looked for.
    Unknown(std::sync::Arc<str>),
}

impl<'a> Transaction<'a> {
    /// Begins: notes `token` as the lane's, and locks the sessions of the orders.
    pub(crate) async fn begin(
        connection: &'a Connection,
        shared: &'a Shared,
        (lane, token): (i64, i64),
        orders: &[&'a Order],
    ) -> Tried<Self> {
        let sql = &shared.sql;
        let buffered = orders.iter().all(|order| {
            order.level == sessionlog::Durability::Buffered && !order.verb.is_always_durable()
        });
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {}{}",
            shared.options.statement.as_millis(),
            if buffered {
                "; SET LOCAL synchronous_commit = off"
            } else {
                ""
            },
        );
        let (mut keys, mut names) = (Vec::new(), Vec::new());
        for order in orders {
            for key in order.keys() {
                let trimmed = key.trim();
                keys.push(key);
                if trimmed != key {
                    keys.push(trimmed);
                }
                if !order.exact {
                    names.push(trimmed);
                }
            }
        }
        keys.sort_unstable();
        keys.dedup();
        names.sort_unstable();
        names.dedup();
        let gate = follower_gate(&sql.schema);
        let lane: [Param<'_>; 3] = [
            (&lane, Type::INT8),
            (&token, Type::INT8),
            (&gate, Type::INT8),
        ];
        let (take_lane, lane) = if shared.notifies {
            (&sql.take_lane_and_gate, &lane[..])
        } else {
            (&sql.take_lane, &lane[..2])
        };
        let claimed: [Param<'_>; 1] = [(&names, Type::TEXT_ARRAY)];
        let locked: [Param<'_>; 2] = [(&keys, Type::TEXT_ARRAY), (&names, Type::TEXT_ARRAY)];
        // The lane first: whoever looks for this transaction waits for its lock, and so for
        // its end. Polled in this order, they are sent in it, and all at once.
        let (opened, noted, claims, rows) = tokio::join!(
            connection.run(&begin),
            connection.execute(take_lane, lane),
            connection.query(&sql.claims, &claimed),
            connection.query(&sql.lock_sessions, &locked),
        );
        opened?;
        if noted? == 0 {
            return Err(Fault::lost("the lane is not registered"));
        }
        let claims = claims?;
        let is_followed = shared.notifies && claims.first().is_some_and(|row| row.get(0));
        let rows = rows?;
        let sessions = rows
            .iter()
            .map(Session::of)
            .map(|one| (one.key.clone(), one));
        let sessions: HashMap<_, _> = sessions.collect();
        let keys_by_id: HashMap<_, _> = sessions
            .values()
            .map(|one| (one.id, one.key.clone()))
            .collect();
        let mut by_name = HashMap::new();
        for row in claims {
            let Some(id) = row.get::<_, Option<i64>>(2) else {
                continue;
            };
            let Some(key) = keys_by_id.get(&id) else {
                return Err(Fault::Again("an alias changed hands meanwhile".into()));
            };
            by_name.insert(row.get(1), key.clone());
        }
        let mut transaction = Self {
            connection,
            shared,
            sessions,
            claims: by_name,
            taken: HashSet::new(),
            lines: Vec::new(),
            ids: Vec::new(),
            outworn: HashMap::new(),
            notices: Vec::new(),
            is_followed,
        };
        transaction.look_for_ids(orders).await?;
        Ok(transaction)
    }

    /// The key of the session that an order is for, which may not be there.
    ///
    /// # Errors
    /// `InvalidKey`.
    pub(crate) fn resolve(&self, order: &Order) -> Result<String> {
        self.meant(&order.key, order.exact)
    }

    /// The same of any key that the order names.
    pub(crate) fn meant(&self, key: &str, exact: bool) -> Result<String> {
        kit::check_key(key)?;
        if exact {
            return Ok(key.to_owned());
        }
        let trimmed = key.trim();
        let has = |key: &str| self.sessions.contains_key(key);
        if trimmed != key && has(key) {
            return Ok(key.to_owned());
        }
        if has(trimmed) && kit::is_own_first(trimmed) {
            return Ok(trimmed.to_owned());
        }
        if let Some(claimant) = self.claims.get(trimmed).filter(|claimant| has(claimant)) {
            return Ok(claimant.clone());
        }
        Ok(if has(trimmed) { trimmed } else { key }.to_owned())
    }

    /// Carries out what needs the session's row and no other.
    ///
    /// # Errors
    /// Those of the verb. The session is as it was then.
    pub(crate) fn update(&mut self, key: &str, update: &'a Update) -> Result<Outcome> {
        if let Some(outcome) = self.is_settled(key, update)? {
            return Ok(outcome);
        }
        let kind = match &update.summary {
            Some(_) => ChangeKind::Updated,
            None => ChangeKind::Appended,
        };
        self.take(key, update);
        Ok(self.changed(key, kind))
    }

    /// What comes of an update without a change, if that is so.
    ///
    /// # Errors
    /// `VersionConflict`.
    pub(crate) fn is_settled(&self, key: &str, update: &Update) -> Result<Option<Outcome>> {
        let session = self.sessions.get(key);
        let found = session.map_or(Version::ABSENT, Session::version);
        require(key, found, update.expect)?;
        if let (Some(session), Some(id)) = (session, &update.once)
            && self.has_taken(session, id)
        {
            return Ok(Some(Outcome::Updated(found, false)));
        }
        let says_nothing =
            update.lines.is_empty() && update.summary.is_none() && update.once.is_none();
        let hides = update.keep.is_some() && session.is_some();
        Ok((says_nothing && !hides).then_some(Outcome::Updated(found, true)))
    }

    /// Adds what an update says to the session, which is made if need be.
    pub(crate) fn take(&mut self, key: &str, update: &'a Update) {
        let session = self.session(key);
        if let Some(summary) = &update.summary {
            session.summary.clone_from(summary);
            session.change.text = true;
        }
        if let Some(once) = &update.once {
            self.remember(key, once);
        }
        for line in &update.lines {
            self.push(key, Cow::Borrowed(line));
        }
    }

    /// The session of a key, made if need be.
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

    /// The session was changed so: it gets another version, and followers are told.
    pub(crate) fn changed(&mut self, key: &str, kind: ChangeKind) -> Outcome {
        let session = self.session(key);
        session.touch();
        let (version, notice) = (session.version(), Notice::of(session, kind));
        self.notices.push(notice);
        Outcome::Updated(version, true)
    }

    /// The session is gone: the caller removed its rows.
    pub(crate) fn gone(&mut self, key: &str) {
        if let Some(mut session) = self.sessions.remove(key) {
            session.version += 1;
            self.notices.push(Notice::of(&session, ChangeKind::Deleted));
        }
    }

    /// Writes what was changed, and commits, in one round trip.
    pub(crate) async fn commit(self) -> Committed {
        let longest = self.shared.options.statement * 2;
        match tokio::time::timeout(longest, self.write_and_commit()).await {
            Ok(committed) => committed,
            Err(_) => Committed::Unknown(format!("no answer for {longest:?}").into()),
        }
    }

    async fn write_and_commit(self) -> Committed {
        let connection = self.connection;
        let rows = Rows::of(&self);
        let sql = &self.shared.sql;
        let notices = self.notices.iter().filter(|_| self.is_followed);
        let notices: Vec<String> = notices.map(Notice::payload).collect();
        let channel = channel(&sql.schema);
        let notified: [Param<'_>; 2] = [(&channel, Type::TEXT), (&notices, Type::TEXT_ARRAY)];
        let (inserted, numbers) = (rows.inserted(), rows.numbers());
        let (text, lines) = (rows.text(), rows.lines());
        let (ids, outworn) = (rows.ids(), rows.outworn());
        let run = |is_any: bool, sql, params| async move {
            if is_any {
                connection.execute(sql, params).await
            } else {
                Ok(0)
            }
        };
        let written = tokio::join!(
            run(!rows.new.id.is_empty(), &sql.insert_sessions, &inserted),
            run(!rows.old.id.is_empty(), &sql.bump_sessions, &numbers),
            run(!rows.texts.id.is_empty(), &sql.rewrite_sessions, &text),
            run(!rows.line_id.is_empty(), &sql.insert_lines, &lines),
            run(!rows.once_id.is_empty(), &sql.insert_ids, &ids),
            run(!rows.outworn_id.is_empty(), &sql.forget_ids, &outworn),
            run(!notices.is_empty(), &sql.notify, &notified),
            // A commit that the server breaks off is one without replicas. In a transaction
            // that failed, the setting is refused, and so nothing is committed.
            connection.run("SET LOCAL statement_timeout = 0; COMMIT"),
        );
        let rows = [
            written.0, written.1, written.2, written.3, written.4, written.5, written.6,
        ];
        let rows = rows.into_iter().map(|one| one.map(drop));
        for one in rows {
            match one.map_err(as_race) {
                Ok(()) => {}
                Err(Fault::Lost(reason)) => return Committed::Unknown(reason),
                // What follows in a transaction that failed is refused, the commit too.
                Err(fault) => return Committed::No(fault),
            }
        }
        match written.7.map_err(Fault::from) {
            Ok(()) if self.connection.was_warned() => {
                Committed::Unknown("the server did not wait for its replicas".into())
            }
            Ok(()) => Committed::Yes,
            Err(Fault::Lost(reason)) => Committed::Unknown(reason),
            Err(fault) => Committed::No(fault),
        }
    }
}

/// Two processes made the same session: one of them has to look again.
fn as_race(error: tokio_postgres::Error) -> Fault {
    use tokio_postgres::error::SqlState;
    if error.code() == Some(&SqlState::UNIQUE_VIOLATION) {
        return Fault::Again("another writer made the session meanwhile".into());
    }
    error.into()
}

/// # Errors
/// `VersionConflict`.
pub(crate) fn require(key: &str, found: Version, expected: Option<Version>) -> Result<()> {
    match expected {
        Some(expected) if expected != found => Err(Error::VersionConflict {
            key: key.into(),
            expected,
            found,
        }),
        _ => Ok(()),
    }
}

/// The channel that a store notifies on.
pub(crate) fn channel(schema: &str) -> String {
    format!("sessionlog_{schema}")
}

/// The lock that a follower takes to begin with: no writer that does not know of it is under
/// way then.
pub(crate) fn follower_gate(schema: &str) -> i64 {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(format!("sessionlog followers {schema}"));
    i64::from_be_bytes(hash[..8].try_into().unwrap_or_default())
}
