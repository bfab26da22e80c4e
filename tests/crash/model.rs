//! What a session must look like: a plain list of texts, and which commands a
//! crash may have undone.

use sessionlog::{Durability, Error, Result};

/// All that a caller can see of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) listed: bool,
    pub(crate) texts: Vec<String>,
    pub(crate) summary: String,
    pub(crate) aliases: Vec<String>,
}

/// One command to one session.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Append(Vec<String>),
    Truncate(usize),
    Compact,
    SetHistory(Vec<String>),
    SetSummary(String),
    SetAliases(Vec<String>),
    Delete,
    /// Take over what this session holds then.
    Promote(&'static str),
    /// The same, with what that was.
    TakeOver(&'static str, State),
}

impl State {
    /// The state after a command took effect.
    pub(crate) fn after(&self, act: &Act) -> Self {
        let mut next = self.clone();
        match act {
            Act::Append(texts) => next.texts.extend(texts.iter().cloned()),
            Act::Truncate(keep) => {
                let cut = next.texts.len().saturating_sub(*keep);
                next.texts.drain(..cut);
                return next;
            }
            Act::Compact => return next,
            Act::SetHistory(texts) => next.texts.clone_from(texts),
            Act::SetSummary(summary) => next.summary.clone_from(summary),
            Act::SetAliases(aliases) => next.aliases.clone_from(aliases),
            Act::Delete => return Self::default(),
            Act::Promote(_) => unreachable!("becomes a take-over when it is submitted"),
            Act::TakeOver(alias, candidate) => {
                let nothing = candidate.texts.is_empty() && candidate.summary.is_empty();
                if nothing || !next.texts.is_empty() || !next.summary.is_empty() {
                    return next;
                }
                next.texts.clone_from(&candidate.texts);
                next.summary.clone_from(&candidate.summary);
                next.aliases = vec![(*alias).to_owned()];
            }
        }
        next.listed = true;
        next
    }
}

/// What is known of a command's outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Took effect, and survives power loss.
    Durable,
    /// Took effect, and survives the death of the process.
    Buffered,
    /// Took no effect.
    Refused,
    /// May have taken effect, unless one before it did not.
    InOrder,
    /// May have taken effect, whatever those around it did.
    Either,
}

impl Outcome {
    /// What an answer tells.
    pub(crate) fn of(answer: Option<&Result<()>>, level: Durability) -> Self {
        match answer {
            Some(Ok(())) if level == Durability::Durable => Self::Durable,
            Some(Ok(())) => Self::Buffered,
            Some(Err(Error::StorageFull { .. })) => Self::Refused,
            Some(Err(Error::Io { .. } | Error::Corrupt { .. })) => Self::Either,
            None | Some(Err(_)) => Self::InOrder,
        }
    }
}

/// What a crash spares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    Process,
    Power,
}

/// A command as the oracle sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate<'a> {
    pub(crate) act: &'a Act,
    pub(crate) outcome: Outcome,
    /// Which opening of the store it was submitted to.
    pub(crate) life: usize,
}

/// Every state a session may be found in after a crash.
pub(crate) fn possible<'a>(
    start: &State,
    fates: impl Iterator<Item = Fate<'a>>,
    loss: Loss,
) -> Vec<State> {
    // `ended`: a command is missing, so none after it may be there, until the
    // store is opened again and goes on from what it found.
    let mut states = vec![(start.clone(), false)];
    let mut now = 0;
    for Fate { act, outcome, life } in fates {
        if life != now {
            now = life;
            for (_, ended) in &mut states {
                *ended = false;
            }
        }
        let kept = match outcome {
            Outcome::Refused => continue,
            Outcome::Durable => true,
            Outcome::Buffered => loss == Loss::Process,
            Outcome::InOrder | Outcome::Either => false,
        };
        let mut next = Vec::new();
        for (state, ended) in states {
            if ended {
                // What changes nothing may be answered whatever is missing.
                if !kept || state.after(act) == state {
                    next.push((state, true));
                }
                continue;
            }
            if !kept {
                next.push((state.clone(), outcome != Outcome::Either));
            }
            next.push((state.after(act), false));
        }
        states = next;
    }
    states.into_iter().map(|(state, _)| state).collect()
}
