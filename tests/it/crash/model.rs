//! What a session must look like: a plain list of texts, and which commands a
//! crash may have undone.

use sessionlog::{Durability, Error, Keep, Message, Reply, Result, StoreHandle};

/// All that a caller can see of a session, and what it would be taken back to.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) listed: bool,
    pub(crate) texts: Vec<String>,
    pub(crate) summary: String,
    pub(crate) title: String,
    pub(crate) aliases: Vec<String>,
    pub(crate) talk: Talk,
    /// The ids of what it took once, oldest first, which no verb shows.
    pub(crate) once: Vec<String>,
    /// How many backups it has.
    pub(crate) backups: usize,
    /// What stands in them, which no verb shows.
    pub(crate) kept: Vec<(Vec<String>, Talk)>,
}

/// What the control records of a session say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Talk {
    pub(crate) tokens: i64,
    pub(crate) next: i64,
    /// How many texts stood before each checkpoint, and how many tokens there
    /// were, which no verb shows.
    pub(crate) points: Vec<(usize, i64)>,
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        let seen = |state: &Self| {
            let talk = (state.talk.tokens, state.talk.next);
            (state.listed, talk, state.backups)
        };
        seen(self) == seen(other)
            && self.texts == other.texts
            && self.summary == other.summary
            && self.title == other.title
            && self.aliases == other.aliases
    }
}

/// What is changed at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Update {
    pub(crate) texts: Vec<String>,
    pub(crate) summary: Option<String>,
    pub(crate) keep: Option<usize>,
    pub(crate) tokens: Option<i64>,
}

impl Update {
    /// Asks for it.
    pub(crate) fn submit(&self, handle: &StoreHandle, key: &str) -> Reply<()> {
        let messages: Vec<_> = self.texts.iter().map(Message::user).collect();
        let mut update = sessionlog::Update::new().append(messages);
        if let Some(summary) = &self.summary {
            update = update.summary(summary);
        }
        if let Some(keep) = self.keep {
            update = update.keep(Keep::Last(keep));
        }
        if let Some(tokens) = self.tokens {
            update = update.tokens(tokens);
        }
        let reply = handle.update(key, update);
        Reply::from_future(async { reply.await.map(drop) })
    }
}

/// Asks for a message to be taken once.
pub(crate) fn take_once(handle: &StoreHandle, key: &str, id: &str, text: &str) -> Reply<()> {
    let reply = handle.append_once(key, id, Message::user(text));
    Reply::from_future(async { reply.await.map(drop) })
}

/// Asks for the newest text but so many to be replaced, or removed.
pub(crate) fn edit(
    handle: &StoreHandle,
    key: &str,
    newer: usize,
    text: Option<&String>,
) -> Reply<()> {
    let (handle, key) = (handle.clone(), key.to_owned());
    let message = text.map(Message::user);
    Reply::from_future(async move {
        let seen = handle.snapshot(&key).await?;
        let page = seen.before(seen.end(), newer + 1).await?;
        if page.messages.len() <= newer {
            // Done to nothing, it is not done to what turns up later.
            return Err(Error::SessionNotFound { key });
        }
        let edited = match message {
            Some(message) => handle.edit(&key, page.start, message).await,
            None => handle.remove(&key, page.start).await,
        };
        edited.map(drop)
    })
}

/// One command to one session.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Append(Vec<String>),
    Truncate(usize),
    /// Several things at once.
    Update(Update),
    /// Append a text under an id, once.
    Once(String, String),
    Compact,
    SetHistory(Vec<String>),
    /// Replace the newest text but so many, or remove it.
    Edit(usize, Option<String>),
    SetSummary(String),
    SetTitle(String),
    SetAliases(Vec<String>),
    Delete,
    /// Take over what this session holds then.
    Promote(&'static str),
    /// The same, with what that was.
    TakeOver(&'static str, State),
    Checkpoint,
    Usage(i64),
    Revert(usize),
    Clear,
    Restore(u64),
    /// Copy what this session holds then.
    Fork(&'static str),
    /// The same, with what that was.
    Copy(&'static str, State),
    /// Go on with this session, before what the key has.
    Move(&'static str),
    /// The same, with what that was.
    Become(&'static str, State),
    /// Go on under another key, which has the answer.
    Leave,
}

impl Act {
    /// Whether it goes by what another session holds, or that one goes by it: where calls fail,
    /// there may have been nothing.
    pub(crate) fn takes(&self) -> bool {
        matches!(
            self,
            Self::TakeOver(..) | Self::Copy(..) | Self::Become(..) | Self::Leave
        )
    }
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
            Act::Update(update) => {
                let says = !update.texts.is_empty() || update.summary.is_some();
                if let Some(keep) = update.keep {
                    let cut = next.texts.len().saturating_sub(keep);
                    next.texts.drain(..cut);
                }
                next.texts.extend(update.texts.iter().cloned());
                if let Some(summary) = &update.summary {
                    next.summary.clone_from(summary);
                }
                if let Some(tokens) = update.tokens {
                    next.talk.tokens = tokens;
                } else if !says {
                    return next;
                }
            }
            Act::Once(id, text) => {
                if next.once.contains(id) {
                    return next;
                }
                next.once.push(id.clone());
                next.texts.push(text.clone());
            }
            Act::Compact => return next,
            Act::SetHistory(texts) => {
                next.texts.clone_from(texts);
                next.talk = Talk::default();
            }
            Act::Edit(newer, text) => return next.edited(*newer, text.as_ref()),
            Act::Checkpoint => {
                next.talk.points.push((next.texts.len(), next.talk.tokens));
                next.talk.next += 1;
            }
            Act::Usage(tokens) => next.talk.tokens = *tokens,
            Act::Revert(id) => {
                let talk = &mut next.talk;
                let Some(&(texts, tokens)) = talk.points.get(*id) else {
                    return next;
                };
                next = next.keep();
                next.texts.truncate(texts);
                next.talk.points.truncate(*id);
                (next.talk.tokens, next.talk.next) =
                    (tokens, i64::try_from(*id).unwrap_or(i64::MAX));
            }
            Act::Clear => {
                if next.texts.is_empty() && next.talk.next == 0 && next.talk.tokens == 0 {
                    return next;
                }
                next = next.keep();
                next.texts.clear();
                next.talk = Talk::default();
            }
            Act::Restore(number) => {
                let Some(kept) = next.kept.get(*number as usize - 1).cloned() else {
                    return next;
                };
                next = next.keep();
                (next.texts, next.talk) = kept;
            }
            Act::Fork(_) => unreachable!("becomes a copy when it is submitted"),
            Act::Copy(_, source) => {
                if next.listed {
                    return next;
                }
                next = Self {
                    aliases: Vec::new(),
                    once: Vec::new(),
                    backups: 0,
                    kept: Vec::new(),
                    ..source.clone()
                };
            }
            Act::Move(_) => unreachable!("becomes what is gone on with when it is submitted"),
            Act::Become(old, source) => next = source.clone().followed(old, next),
            Act::SetSummary(summary) => next.summary.clone_from(summary),
            Act::SetTitle(title) => next.title.clone_from(title),
            Act::SetAliases(aliases) => next.aliases.clone_from(aliases),
            Act::Leave | Act::Delete => return Self::default(),
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

    /// With the newest text but so many replaced, or removed.
    fn edited(mut self, newer: usize, text: Option<&String>) -> Self {
        let Some(nth) = self.texts.len().checked_sub(newer + 1) else {
            return self;
        };
        self.texts.splice(nth..=nth, text.cloned());
        // Where a checkpoint leads to when a text before it is gone.
        for (before, _) in &mut self.talk.points {
            *before -= usize::from(text.is_none() && *before > nth);
        }
        self
    }

    /// With what comes after it under another key.
    fn followed(mut self, old: &str, newer: Self) -> Self {
        self.texts.extend(newer.texts);
        let said = [&self.summary, &newer.summary].map(String::as_str);
        let said = said.into_iter().filter(|summary| !summary.is_empty());
        self.summary = said.collect::<Vec<_>>().join("\n\n");
        if !newer.title.is_empty() {
            self.title = newer.title;
        }
        let theirs = self.aliases.into_iter().chain([old.to_owned()]);
        self.aliases = newer.aliases;
        for alias in theirs {
            if !self.aliases.contains(&alias) {
                self.aliases.push(alias);
            }
        }
        self.once.extend(newer.once);
        self.kept = [newer.kept, self.kept].concat();
        self.backups = self.kept.len();
        if newer.listed {
            self.talk.points.clear();
            self.talk.next = self.talk.next.max(newer.talk.next);
        }
        self
    }

    /// With a backup of what it is, unless that is nothing.
    fn keep(mut self) -> Self {
        if !self.texts.is_empty() || self.talk.next > 0 || self.talk.tokens != 0 {
            self.kept.push((self.texts.clone(), self.talk.clone()));
            self.backups += 1;
        }
        self
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
            Some(Err(Error::StorageFull { .. } | Error::SessionNotFound { .. })) => Self::Refused,
            // EMFILE: nothing was begun.
            Some(Err(Error::Io { source, .. })) if source.raw_os_error() == Some(24) => {
                Self::Refused
            }
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
