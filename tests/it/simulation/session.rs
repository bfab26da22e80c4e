//! What was asked of one session since the store was opened, and what it may
//! therefore look like.

use sessionlog::testing::sim::{Sim, Ticket};
use sessionlog::{CheckpointId, Durability, Result};

use crate::crash::model::{Act, Fate, Loss, Outcome, State, possible};
use crate::simulation::trouble::Trouble;

/// One session, from one opening of the store to the next.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// What the opening found.
    pub(crate) start: State,
    pub(crate) commands: Vec<Command>,
    /// So many of its commands can no longer be lost.
    pub(crate) kept: usize,
    /// Whether it was ever truncated: the model counts what stands before a
    /// checkpoint from the first line on.
    pub(crate) cut: bool,
}

#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) act: Act,
    pub(crate) level: Durability,
    pub(crate) pending: Option<Pending>,
    pub(crate) answer: Option<Result<()>>,
}

#[derive(Debug)]
pub(crate) enum Pending {
    Plain(Ticket<()>),
    Promotion(Ticket<bool>),
    Checkpoint(Ticket<CheckpointId>),
}

impl Session {
    /// The state after everything submitted that did not fail.
    pub(crate) fn latest(&self) -> State {
        self.after(self.commands.len())
    }

    /// The states that a reader may be shown who asked when the first
    /// `answered` commands were answered: one after another command may have
    /// taken effect since. If something lacked, one may have been refused, untold.
    pub(crate) fn between(&self, answered: usize, trouble: &Trouble) -> Vec<State> {
        let (mut now, mut all) = (vec![self.start.clone()], Vec::new());
        for (nth, command) in self.commands.iter().enumerate() {
            if nth >= answered {
                all.extend_from_slice(&now);
            }
            if matches!(command.answer, Some(Err(_))) {
                continue;
            }
            let done: Vec<_> = now.iter().map(|state| state.after(&command.act)).collect();
            if command.answer.is_some() || !trouble.lacked() {
                now.clear();
            }
            now.extend(done);
        }
        all.extend(now);
        all
    }

    fn after(&self, count: usize) -> State {
        let done = self.commands[..count].iter();
        let done = done.filter(|command| !matches!(command.answer, Some(Err(_))));
        done.fold(self.start.clone(), |state, c| state.after(&c.act))
    }

    /// So many of its first commands are answered.
    pub(crate) fn answered(&self) -> usize {
        let answered = self.commands.iter().take_while(|c| c.answer.is_some());
        answered.count()
    }

    /// Whether it took over another: if calls fail there may be nothing to take.
    pub(crate) fn takes_over(&self) -> bool {
        let taken = |c: &Command| matches!(c.act, Act::TakeOver(..) | Act::Copy(..));
        self.commands.iter().any(taken)
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.commands.iter().all(|c| c.answer.is_some())
    }

    /// Whether every command so far did what it said.
    pub(crate) fn is_certain(&self) -> bool {
        self.commands
            .iter()
            .all(|c| matches!(c.answer, Some(Ok(()))))
    }

    /// Commands of which each may have taken effect whatever the others did:
    /// every one doubles what the session may look like.
    pub(crate) fn doubts(&self) -> usize {
        let doubtful = |c: &&Command| Outcome::of(c.answer.as_ref(), c.level) == Outcome::Either;
        self.commands.iter().filter(doubtful).count()
    }

    /// What a crash may leave. If calls failed, a promotion or a fork may have found
    /// nothing to take over; if something lacked, a command may have been refused,
    /// untold, and those after it not.
    pub(crate) fn possible(&self, loss: Loss, trouble: &Trouble) -> Vec<State> {
        let disturbed = trouble.met();
        let fates = self.commands.iter().enumerate().map(|(nth, command)| {
            let outcome = Outcome::of(command.answer.as_ref(), command.level);
            let optional = disturbed && matches!(command.act, Act::TakeOver(..) | Act::Copy(..));
            let outcome = match outcome {
                Outcome::Durable if optional => Outcome::Either,
                Outcome::Buffered if nth < self.kept => Outcome::Durable,
                Outcome::InOrder if trouble.lacked() && command.answer.is_none() => Outcome::Either,
                other => other,
            };
            Fate {
                act: &command.act,
                outcome,
                life: 0,
            }
        });
        possible(&self.start, fates, loss)
    }

    /// Takes over what the store was found to hold.
    pub(crate) fn restart(&mut self, found: State) {
        *self = Self {
            start: found,
            cut: self.cut,
            ..Self::default()
        };
    }
}

impl Command {
    /// Lets the store run until this is answered.
    pub(crate) fn settle(&mut self, sim: &mut Sim) {
        match &self.pending {
            Some(Pending::Plain(ticket)) => drop(sim.until_answered(ticket)),
            Some(Pending::Promotion(ticket)) => drop(sim.until_answered(ticket)),
            Some(Pending::Checkpoint(ticket)) => drop(sim.until_answered(ticket)),
            None => {}
        }
        self.collect();
    }

    /// Notes the answer if there is one.
    pub(crate) fn collect(&mut self) {
        let answer = match &self.pending {
            Some(Pending::Plain(ticket)) => ticket.answer(),
            Some(Pending::Promotion(ticket)) => ticket.answer().map(|a| a.map(drop)),
            Some(Pending::Checkpoint(ticket)) => ticket.answer().map(|a| a.map(drop)),
            None => return,
        };
        if answer.is_some() {
            self.answer = answer;
            self.pending = None;
        }
    }
}
