//! Group commit: the commands that callers queued during the last transaction go as one.

use std::sync::Arc;
use std::time::Duration;

use sessionlog::{Error, Result};
use tokio::time::Instant;
use tokio_postgres::types::Type;

use crate::command::{Command, Order, Outcome, Verb};
use crate::connection::{Connection, Param};
use crate::context::{Pause, Shared};
use crate::fault::{Fault, Tried};
use crate::queue::Place;
use crate::row::{Session, random};
use crate::transaction::{Committed, Transaction};

/// One writer of the store: one connection, one transaction at a time.
pub(crate) struct Lane {
    shared: Arc<Shared>,
    place: Place,
    connection: Option<Connection>,
    /// Its row, and the number that it wrote there last. A number in the row was committed.
    id: i64,
    token: i64,
    /// The number of times that it asked for a transaction after the answer was lost, as its row
    /// has it. This number refuses a transaction that comes later than the question.
    settled: i64,
}

/// The fate of a transaction.
enum Tally {
    Committed(Vec<Result<Outcome>>),
    /// Nothing of it is there.
    RolledBack(Fault),
    /// It may be in the database. Then these are its outcomes.
    Unknown(Vec<Result<Outcome>>, Arc<str>),
}

impl Lane {
    pub(crate) fn new(shared: Arc<Shared>, place: Place) -> Self {
        Self {
            shared,
            place,
            connection: None,
            id: random(),
            token: 0,
            settled: 0,
        }
    }

    /// Carries out commands until the queue is closed and empty.
    pub(crate) async fn run(mut self) {
        let mut refused = self.shared.connector.refused.subscribe();
        loop {
            let taken = tokio::select! {
                biased;
                taken = self.place.take() => taken,
                // Another part of this store needs a connection, and the role has none left.
                Ok(()) = refused.changed(), if self.connection.is_some() => {
                    self.leave().await;
                    self.disconnect();
                    continue;
                }
            };
            let Some(mut batch) = taken else { break };
            let commands = std::mem::take(&mut batch.commands);
            self.commit(commands).await;
        }
        self.leave().await;
    }

    /// Carries out commands in one transaction, and answers. If the database refuses the
    /// transaction, each command is tried alone. Then only the command that is refused fails.
    async fn commit(&mut self, batch: Vec<Command>) {
        let orders: Vec<&Order> = batch.iter().map(|command| &command.order).collect();
        match self.try_to_commit(&orders).await {
            Ok(outcomes) => {
                for (command, outcome) in batch.into_iter().zip(outcomes) {
                    // A caller that does not wait any more is not told.
                    let _ = command.answer.send(outcome);
                }
            }
            Err(Failure::Refused(_)) if batch.len() > 1 => {
                for command in batch {
                    let outcome = self.try_to_commit(&[&command.order]).await;
                    let outcome = outcome.map_err(Failure::into_error);
                    let one = outcome.and_then(|mut all| all.pop().unwrap_or(Err(Error::Closed)));
                    let _ = command.answer.send(one);
                }
            }
            Err(failure) => {
                let error = failure.into_error();
                for command in batch {
                    let _ = command.answer.send(Err(error.clone()));
                }
            }
        }
    }

    /// Tries until it is committed, refused, or too late.
    async fn try_to_commit(
        &mut self,
        orders: &[&Order],
    ) -> std::result::Result<Vec<Result<Outcome>>, Failure> {
        let deadline = Instant::now() + self.shared.options.retry;
        let mut pause = Pause::default();
        // The state that this process knows may be out of date, so it is used for one try only.
        let mut presumed = self.presume(orders);
        loop {
            self.token += 1;
            let has_presumed = !presumed.is_empty();
            let fault = match self.attempt(orders, std::mem::take(&mut presumed)).await {
                Tally::Committed(outcomes) => return Ok(outcomes),
                Tally::RolledBack(Fault::Refused(error)) => return Err(Failure::Refused(error)),
                Tally::RolledBack(fault) => fault,
                Tally::Unknown(outcomes, reason) => {
                    if self.settle(deadline, &reason).await? {
                        return Ok(outcomes);
                    }
                    Fault::Lost(reason)
                }
            };
            if let Fault::Lost(reason) = &fault {
                tracing::warn!(%reason, "a connection to the database was lost");
                self.disconnect();
            } else if has_presumed {
                continue;
            }
            if Instant::now() >= deadline {
                return Err(Failure::Late(fault.reason()));
            }
            pause.wait(deadline).await;
        }
    }

    async fn attempt(&mut self, orders: &[&Order], presumed: Vec<Session>) -> Tally {
        if let Err(fault) = self.connect().await {
            return Tally::RolledBack(fault);
        }
        let Some(connection) = &self.connection else {
            return Tally::RolledBack(Fault::lost("there is no connection"));
        };
        let mark = (self.id, self.token);
        let longest = self.shared.options.statement * 2;
        let mut transaction = if presumed.is_empty() {
            let begun = Transaction::begin(connection, &self.shared, mark, orders);
            match self.shared.answered(connection, longest, begun).await {
                Ok(transaction) => transaction,
                Err(fault) => return self.give_up(fault).await,
            }
        } else {
            let (shared, settled) = (&self.shared, self.settled);
            Transaction::presuming(connection, shared, mark, settled, orders, presumed)
        };
        let settled = transaction.settled;
        let mut outcomes = Vec::with_capacity(orders.len());
        for order in orders {
            let outcome = match &order.verb {
                Verb::Update(update) if order.verb.is_simple() => {
                    let key = transaction.resolve(order);
                    Ok(key.and_then(|key| transaction.update(&key, update)))
                }
                _ => {
                    let longest = self.shared.options.longest(order.verb.is_bulky()) * 8;
                    let done = transaction.carry_out(order);
                    self.shared.answered(connection, longest, done).await
                }
            };
            match outcome {
                Ok(outcome) => outcomes.push(outcome),
                Err(fault) => return self.give_up(fault).await,
            }
        }
        let committed = transaction.commit().await;
        self.settled = settled;
        match committed {
            Committed::Yes => Tally::Committed(outcomes),
            Committed::No(fault) => self.give_up(fault).await,
            Committed::Unknown(reason) => {
                self.disconnect();
                Tally::Unknown(outcomes, reason)
            }
        }
    }

    /// Ends a transaction that failed, so that the connection can be used again.
    async fn give_up(&self, fault: Fault) -> Tally {
        if let (Some(connection), false) = (&self.connection, matches!(fault, Fault::Lost(_))) {
            let rolled_back = connection.run("ROLLBACK");
            let rolled_back =
                tokio::time::timeout(self.shared.options.statement, rolled_back).await;
            match rolled_back {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Tally::RolledBack(error.into()),
                Err(_) => return Tally::RolledBack(Fault::lost("the server does not answer")),
            }
        }
        Tally::RolledBack(fault)
    }

    /// Makes a connection to a server that was not replaced, and the lane's row, without which
    /// nothing is committed.
    async fn connect(&mut self) -> Tried<()> {
        if self
            .connection
            .as_ref()
            .is_some_and(|one| !one.client.is_closed() && self.shared.is_current(one))
        {
            return Ok(());
        }
        self.disconnect();
        let before = *self.shared.connector.refused.borrow();
        let connection = self.shared.writers.connect().await;
        if connection.is_err() && *self.shared.connector.refused.borrow() > before {
            // The idle connections of the pool are given up, so that the next try may get one.
            self.shared.pool.retain(|_, _| false);
        }
        let connection = connection?;
        let sql = "INSERT INTO {schema}.lanes (lane_id, token, settled, seen_at)
             VALUES ($1, 0, $2, now()) ON CONFLICT DO NOTHING";
        let sql = self.shared.sql.fill(sql);
        // The row may have been removed. Even then earlier transactions come too late.
        let settled = self.settled + 1;
        let params: [Param<'_>; 2] = [(&self.id, Type::INT8), (&settled, Type::INT8)];
        let registered = connection.execute(&sql, &params);
        let registered = tokio::time::timeout(self.shared.options.statement, registered).await;
        registered.map_err(|_| Fault::lost("the server does not answer"))??;
        self.connection = Some(connection);
        Ok(())
    }

    /// Returns the sessions of orders, if all that is needed of them is known; else none.
    fn presume(&self, orders: &[&Order]) -> Vec<Session> {
        // Behind a pooler the server would plan the statement each time, and lock the rows in any
        // order. Followers are told of sessions that were looked at.
        let shared = &self.shared;
        let is_direct = |one: &Connection| {
            one.plans_once() && !one.client.is_closed() && shared.is_current(one)
        };
        let may = shared.notifies && !shared.is_followed();
        if !may || !self.connection.as_ref().is_some_and(is_direct) {
            return Vec::new();
        }
        shared.known.take(orders)
    }

    /// Gives the connection up. The next one may lead to a server that lacks the data of this one.
    fn disconnect(&mut self) {
        self.connection = None;
        self.shared.known.forget();
    }

    /// True if the last transaction is in the database. The question waits for that transaction's
    /// lock, and so for its end. The question itself is committed: then the replicas have it and
    /// everything before it.
    async fn settle(
        &mut self,
        deadline: Instant,
        reason: &Arc<str>,
    ) -> std::result::Result<bool, Failure> {
        tracing::warn!(%reason, "a commit's answer was lost; it is looked for");
        let mut pause = Pause::default();
        loop {
            match self.ask_for_token().await {
                Ok(token) => return Ok(token == Some(self.token)),
                Err(fault) if Instant::now() >= deadline => {
                    let reason = format!("{reason}; looking for it: {}", fault.reason());
                    return Err(Failure::Unknown(reason.into()));
                }
                Err(_) => {}
            }
            self.disconnect();
            pause.wait(deadline).await;
        }
    }

    /// Reads the token in the lane's row. Returns nothing if there is no row.
    async fn ask_for_token(&mut self) -> Tried<Option<i64>> {
        self.connect().await?;
        let Some(connection) = &self.connection else {
            return Err(Fault::lost("there is no connection"));
        };
        connection.was_warned();
        let params: [Param<'_>; 1] = [(&self.id, Type::INT8)];
        let asked = async { Ok(connection.query(&self.shared.sql.settle, &params).await?) };
        let longest = self.shared.options.statement;
        let rows = self.shared.answered(connection, longest, asked).await?;
        if connection.was_warned() {
            return Err(Fault::lost("the server did not wait for its replicas"));
        }
        let row = rows.first();
        if let Some(row) = row {
            self.settled = row.get(1);
        }
        Ok(row.map(|row| row.get(0)))
    }

    /// Removes the lane's row. A row that is left is removed when the store is opened weeks later.
    async fn leave(&mut self) {
        let Some(connection) = &self.connection else {
            return;
        };
        let sql = self
            .shared
            .sql
            .fill("DELETE FROM {schema}.lanes WHERE lane_id = $1");
        let params: [Param<'_>; 1] = [(&self.id, Type::INT8)];
        let left = connection.execute(&sql, &params);
        let _ = tokio::time::timeout(Duration::from_secs(1), left).await;
    }
}

/// The reason that a command was not carried out.
enum Failure {
    Refused(Error),
    /// It was tried for as long as is permitted. It took no effect.
    Late(Arc<str>),
    Unknown(Arc<str>),
}

impl Failure {
    fn into_error(self) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Late(reason) => Error::Unavailable { reason },
            Self::Unknown(reason) => Error::OutcomeUnknown { reason },
        }
    }
}
