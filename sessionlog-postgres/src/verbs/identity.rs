//! The scope and aliases of a session, and the content that it takes over from the aliases.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;
use sessionlog::backend::kit::{self, Heir};
use sessionlog::{ChangeKind, Result};
use tokio_postgres::types::Type;

use crate::command::{Identity, Order, Outcome};
use crate::connection::Param;
use crate::fault::Tried;
use crate::row::{NewLine, Session};
use crate::transaction::Transaction;

/// The content that a session takes over.
struct Heritage {
    lines: Vec<NewLine>,
    summary: String,
}

impl Transaction<'_> {
    pub(super) async fn upsert(
        &mut self,
        key: &str,
        identity: &Identity,
    ) -> Tried<Result<Outcome>> {
        if let Err(error) = self.admit(key, identity.scope.as_deref()) {
            return Ok(Err(error));
        }
        self.set_identity(key, identity).await?;
        self.changed(key, ChangeKind::Updated);
        Ok(Ok(Outcome::Done))
    }

    /// See [`Verb::Promote`](crate::command::Verb::Promote).
    pub(super) async fn promote(
        &mut self,
        order: &Order,
        identity: &Identity,
        always: bool,
    ) -> Tried<Result<Outcome>> {
        let given = order.key.as_str();
        let has = |key: &str| !always || self.sessions.contains_key(key);
        let key = kit::literal(given, has);
        let checked = kit::check_key(key).and_then(|()| self.admit(key, identity.scope.as_deref()));
        if let Err(error) = checked {
            return Ok(Err(error));
        }
        let names = kit::normalize_aliases(key, &identity.aliases);
        let heritage = if self.is_blank(key).await? {
            self.heritage(key, identity, &names, always).await?
        } else {
            None
        };
        let takes = heritage.is_some();
        if !takes && (!always || self.is_known_as(key, identity, &names)) {
            return Ok(Ok(Outcome::Whether(false)));
        }
        if let Some(heritage) = heritage {
            self.take_over(key, heritage).await?;
        }
        self.set_identity(key, identity).await?;
        let kind = if takes {
            ChangeKind::Replaced
        } else {
            ChangeKind::Updated
        };
        self.changed(key, kind);
        Ok(Ok(Outcome::Whether(takes)))
    }

    /// Refuses a scope that is another conversation's.
    fn admit(&self, key: &str, scope: Option<&RawValue>) -> Result<()> {
        match self.sessions.get(key) {
            Some(session) => kit::admit(key, session.raw_scope().as_deref(), scope),
            None => Ok(()),
        }
    }

    fn is_known_as(&self, key: &str, identity: &Identity, names: &[String]) -> bool {
        let scope = identity.scope.as_ref().map(|scope| scope.get());
        self.sessions
            .get(key)
            .is_some_and(|own| own.scope.as_deref() == scope && own.aliases == names)
    }

    /// Replaces scope and aliases.
    pub(super) async fn set_identity(&mut self, key: &str, identity: &Identity) -> Tried<()> {
        let names = kit::normalize_aliases(key, &identity.aliases);
        let session = self.session(key);
        let id = session.id;
        session.scope = identity.scope.as_ref().map(|scope| scope.get().to_owned());
        session.change.text = true;
        let is_same = session.aliases == names;
        session.aliases.clone_from(&names);
        if is_same {
            return Ok(());
        }
        let former = self.disclaim(&[id]).await?;
        self.claim(key, &names, &former).await
    }

    /// Removes the aliases of sessions, and returns those that were keys.
    pub(super) async fn disclaim(&self, ids: &[i64]) -> Tried<Vec<String>> {
        let sql = "DELETE FROM {schema}.session_aliases WHERE session_id = ANY($1)
             RETURNING alias, was_key";
        let params: [Param<'_>; 1] = [(&ids, Type::INT8_ARRAY)];
        let rows = self.ask(sql, &params).await?;
        let former = rows.iter().filter(|row| row.get(1));
        Ok(former.map(|row| row.get(0)).collect())
    }

    /// Makes aliases mean a session. The `former` ones were keys.
    pub(super) async fn claim(&self, key: &str, names: &[String], former: &[String]) -> Tried<()> {
        let Some(id) = self.sessions.get(key).map(|session| session.id) else {
            return Ok(());
        };
        // A name that cannot be a key leads nowhere.
        let names = names.iter().filter(|name| kit::check_key(name).is_ok());
        let names: Vec<&str> = names.map(String::as_str).collect();
        let file = kit::file_name(key).into_bytes();
        let sql = "INSERT INTO {schema}.session_aliases
                 (session_id, alias, file_name, session_key, was_key)
             SELECT $1, a, $2, $3, a = ANY($5) FROM unnest($4::text[]) AS t(a)";
        let params: [Param<'_>; 5] = [
            (&id, Type::INT8),
            (&file, Type::BYTEA),
            (&key, Type::TEXT),
            (&names, Type::TEXT_ARRAY),
            (&former, Type::TEXT_ARRAY),
        ];
        let sql = self.shared.sql.fill(sql);
        self.connection.execute(&sql, &params).await?;
        Ok(())
    }

    /// Returns the content of the first alias that has any. Aliases that the session already claims
    /// are left out: their content was taken over before, and if it was cleared since, it must not
    /// come back.
    async fn heritage(
        &self,
        key: &str,
        identity: &Identity,
        names: &[String],
        always: bool,
    ) -> Tried<Option<Heritage>> {
        let own = self.sessions.get(key);
        let own_scope = own.and_then(Session::raw_scope);
        let heir = Heir {
            names,
            scopes: [identity.scope.as_deref(), own_scope.as_deref()],
            claimed: own.filter(|_| always).map_or(&[], |own| &own.aliases),
        };
        let fresh = names.iter().filter(|name| heir.may_ask(name));
        let fresh: Vec<&str> = fresh.map(String::as_str).collect();
        if fresh.is_empty() {
            return Ok(None);
        }
        let sql = "SELECT {COLUMNS} FROM {schema}.sessions s WHERE s.key = ANY($1)";
        let params: [Param<'_>; 1] = [(&fresh, Type::TEXT_ARRAY)];
        let found = self.ask(sql, &params).await?;
        let found = found
            .iter()
            .map(Session::of)
            .map(|one| (one.key.clone(), one));
        let found: HashMap<_, _> = found.collect();
        for alias in fresh {
            let Some(session) = found.get(alias) else {
                continue;
            };
            let scope = session.raw_scope();
            let is_any = session.messages > 0 || !session.summary.trim().is_empty();
            if is_any && kit::gives_away(alias, &session.aliases, scope.as_deref()) {
                return self.read_heritage(session).await.map(Some);
            }
        }
        Ok(None)
    }

    async fn read_heritage(&self, from: &Session) -> Tried<Heritage> {
        let sql = "SELECT line_at, line FROM {schema}.lines WHERE session_id = $1
             AND (line_at >= $2 OR kind IN (1, 2, 3)) ORDER BY line_at";
        let params: [Param<'_>; 2] = [(&from.id, Type::INT8), (&from.start_at, Type::INT8)];
        let rows = self.ask(sql, &params).await?;
        let lines = rows.iter().map(|row| {
            let (at, line): (i64, Vec<u8>) = (row.get(0), row.get(1));
            // Nothing is left to go back to at the place of a hidden checkpoint.
            let line = if at < from.start_at {
                kit::lost_checkpoint_line(&line)
            } else {
                line
            };
            NewLine::read(line)
        });
        Ok(Heritage {
            lines: lines.collect(),
            summary: from.summary.trim().to_owned(),
        })
    }

    /// Puts the inherited content in the place of a history that shows nothing, after its own
    /// control records. Those stay in force until a later record replaces them.
    async fn take_over(&mut self, key: &str, heritage: Heritage) -> Tried<()> {
        let own = match self.sessions.get(key).filter(|own| own.lines > 0) {
            Some(own) => carried(self.controls(own.id).await?, own.start_at),
            None => Vec::new(),
        };
        self.empty(key).await?;
        for line in own.into_iter().chain(heritage.lines) {
            self.push(key, Cow::Owned(line));
        }
        if !heritage.summary.is_empty() {
            self.session(key).set_summary(&heritage.summary);
        }
        Ok(())
    }
}

/// Returns the control records that stay in force: the last hidden one of each kind, and those that
/// are not hidden. Checkpoints become lost ones, because nothing is left to go back to.
pub(super) fn carried(controls: Vec<(u64, Vec<u8>)>, start_at: i64) -> Vec<NewLine> {
    let start_at = start_at.cast_unsigned();
    let mut carried: Vec<NewLine> = Vec::new();
    for (at, line) in controls {
        let line = NewLine::read(kit::lost_checkpoint_line(&line));
        if at < start_at {
            carried.retain(|earlier| earlier.kind != line.kind);
        }
        carried.push(line);
    }
    carried
}
