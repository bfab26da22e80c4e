//! Drives all chats through one handle: a task for each, so that a chat's
//! messages keep their order, and a limit on how many turns are under way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sessionlog::scope::{Allocation, SessionScope};
use sessionlog::{
    Appended, Budget, ChangeFilter, Error, Keep, Message, Reply, StoreHandle, Unpaired, Update,
};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::acks::AckLog;
use crate::bot;
use crate::inbound::Inbound;
use crate::intake::Chat;
use crate::ledger::{ChatState, Effect, Ledger, fingerprint, text_fingerprint};
use crate::progress::Progress;

/// A chat with more visible messages than this is summarised and truncated.
const BUDGET: usize = 40;
/// At most this many messages stay.
const KEEP: usize = 12;
/// Every so many turns the platform delivers its update again.
const REDELIVERED: u64 = 4;

/// How the chats are driven.
pub(crate) struct Plan {
    /// Turns under way at once.
    pub(crate) concurrency: usize,
    /// How often each chat's messages are said again, as further turns.
    pub(crate) repeat: u64,
    /// How often to flush the store meanwhile; `None` leaves it to the store.
    pub(crate) flush_every: Option<Duration>,
    pub(crate) acks: Option<AckLog>,
}

/// What happened, and what the store owes us for it.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) ledgers: BTreeMap<String, Ledger>,
    pub(crate) tally: Tally,
    pub(crate) elapsed: Duration,
}

/// Counts that add up over chats.
#[derive(Default)]
pub(crate) struct Tally {
    /// Chats that had a history already.
    pub(crate) continued: u64,
    pub(crate) turns: u64,
    pub(crate) messages: u64,
    /// Time from submission to acknowledgement of every append.
    pub(crate) latencies: Vec<Duration>,
    pub(crate) truncations: u64,
    /// Messages the store would not take, with its reason. They took no effect.
    pub(crate) refused: Vec<String>,
    /// What stopped a chat.
    pub(crate) failures: Vec<String>,
}

/// Runs every chat to its end.
pub(crate) async fn drive(
    store: &StoreHandle,
    chats: Vec<Chat>,
    plan: Plan,
    progress: &Progress,
) -> Outcome {
    let plan = Arc::new(plan);
    let places = Arc::new(Semaphore::new(plan.concurrency));
    let flusher = plan
        .flush_every
        .map(|every| tokio::spawn(flush_every(store.clone(), every)));
    let follower = tokio::spawn(follow(store.clone()));
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for chat in chats {
        let conversation = Conversation::new(store.clone(), chat.session, Arc::clone(&plan));
        let places = Arc::clone(&places);
        tasks.spawn(conversation.run(chat.messages, places, progress.clone()));
    }
    let mut outcome = Outcome::default();
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(conversation) => outcome.add(conversation),
            Err(panic) => outcome.tally.failures.push(panic.to_string()),
        }
    }
    outcome.elapsed = begun.elapsed();
    follower.abort();
    if let Ok(error) = follower.await {
        outcome.tally.failures.push(format!("changes: {error}"));
    }
    if let Some(flusher) = flusher {
        flusher.abort();
        if let Ok(error) = flusher.await {
            outcome.tally.failures.push(format!("flush: {error}"));
        }
    }
    outcome
}

/// Follows what becomes of the sessions, as what shows them to people would: a change is
/// told after it can be read. Ends only with an error.
async fn follow(store: StoreHandle) -> Error {
    let mut changes = store.changes(ChangeFilter::new());
    loop {
        match changes.next().await {
            // It fell behind: whoever shows sessions lists them again.
            Ok(_) | Err(Error::ChangesMissed { .. }) => {}
            Err(error) => return error,
        }
    }
}

/// Ends only with an error.
async fn flush_every(store: StoreHandle, every: Duration) -> Error {
    loop {
        tokio::time::sleep(every).await;
        if let Err(error) = store.flush().await {
            return error;
        }
    }
}

impl Outcome {
    fn add(&mut self, conversation: Conversation) {
        let Conversation {
            key, ledger, tally, ..
        } = conversation;
        self.tally.add(tally);
        if let Some(ledger) = ledger {
            self.ledgers.insert(key, ledger);
        }
    }
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.continued += other.continued;
        self.turns += other.turns;
        self.messages += other.messages;
        self.latencies.extend(other.latencies);
        self.truncations += other.truncations;
        self.refused.extend(other.refused);
        self.failures.extend(other.failures);
    }
}

/// Why a chat goes no further.
enum Stop {
    /// This message was refused and took no effect; the next may pass.
    Turn(Error),
    /// What the store holds of this chat is no longer known, or cannot grow.
    Chat(String),
}

impl Stop {
    fn after(error: Error) -> Self {
        if is_refusal(&error) {
            Self::Turn(error)
        } else {
            Self::Chat(error.to_string())
        }
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Chat(format!("the log of acknowledgements: {error}"))
    }
}

/// One chat under way.
struct Conversation {
    store: StoreHandle,
    key: String,
    /// Where the session belongs, and its older names.
    scope: SessionScope,
    aliases: Vec<String>,
    plan: Arc<Plan>,
    /// `None` until the first turn has read what is there.
    ledger: Option<Ledger>,
    /// For every visible message, whether a user said it.
    from_user: Vec<bool>,
    turn: u64,
    commands: u64,
    tally: Tally,
}

impl Conversation {
    fn new(store: StoreHandle, session: Allocation, plan: Arc<Plan>) -> Self {
        Self {
            store,
            key: session.session_key,
            scope: session.scope,
            aliases: session.session_aliases,
            plan,
            ledger: None,
            from_user: Vec::new(),
            turn: 0,
            commands: 0,
            tally: Tally::default(),
        }
    }

    async fn run(
        mut self,
        messages: Vec<Inbound>,
        places: Arc<Semaphore>,
        progress: Progress,
    ) -> Self {
        let again = std::iter::repeat_n(&messages, self.plan.repeat as usize);
        for inbound in again.flatten() {
            let _place = places.acquire().await;
            match self.take_turn(inbound).await {
                Ok(()) => self.tally.turns += 1,
                Err(Stop::Turn(error)) => self.tally.refused.push(format!("{}: {error}", self.key)),
                Err(Stop::Chat(reason)) => {
                    self.tally.failures.push(format!("{}: {reason}", self.key));
                    break;
                }
            }
            progress.advance();
        }
        self
    }

    async fn take_turn(&mut self, inbound: &Inbound) -> Result<(), Stop> {
        if self.ledger.is_none() {
            self.resume().await?;
        }
        self.turn += 1;
        let said = bot::user_message(self.turn, inbound).map_err(Stop::Turn)?;
        let reply = bot::reply(self.turn, inbound).map_err(Stop::Turn)?;

        let effect = Effect::Append(vec![fingerprint(&said)]);
        let submitted = self.deliver(said);
        self.append(effect, submitted, &[true]).await?;

        let effect = Effect::Append(reply.iter().map(fingerprint).collect());
        let from_user = vec![false; reply.len()];
        let submitted = self.store.append_all(&self.key, reply);
        self.append(effect, submitted, &from_user).await?;

        if self.from_user.len() > BUDGET {
            self.shrink(inbound).await?;
        }
        Ok(())
    }

    /// Goes on from what the store holds, under whatever name, so that a second
    /// run on the same directory continues its chats.
    async fn resume(&mut self) -> Result<(), Stop> {
        let unreadable = |error: Error| Stop::Chat(error.to_string());
        let (scope, aliases) = (self.scope.to_raw(), std::mem::take(&mut self.aliases));
        let ensured = self
            .store
            .ensure_session_metadata(&self.key, Some(scope), aliases);
        ensured.await.map_err(unreadable)?;
        let history = self.store.history(&self.key).await.map_err(unreadable)?;
        let summary = self.store.summary(&self.key).await.map_err(unreadable)?;
        self.turn = history.iter().filter_map(bot::turn_of).max().unwrap_or(0);
        self.from_user = history
            .iter()
            .map(|message| message.role() == "user")
            .collect();
        self.tally.continued += u64::from(!history.is_empty());
        let state = ChatState::of(&history, &summary);
        if let Some(acks) = &self.plan.acks {
            acks.have(&self.key, &state)?;
        }
        self.ledger = Some(Ledger::starting_from(state));
        Ok(())
    }

    async fn append(
        &mut self,
        effect: Effect,
        reply: Reply<()>,
        from_user: &[bool],
    ) -> Result<(), Stop> {
        let latency = self.submit(effect, reply).await?;
        self.tally.latencies.push(latency);
        self.tally.messages += from_user.len() as u64;
        self.from_user.extend(from_user);
        Ok(())
    }

    /// What the platform delivers, now and then twice at once: it is taken once.
    fn deliver(&self, said: Message) -> Reply<()> {
        let id = format!("turn {}", self.turn);
        let (store, key) = (self.store.clone(), self.key.clone());
        let times = if self.turn.is_multiple_of(REDELIVERED) {
            2
        } else {
            1
        };
        Reply::from_future(async move {
            let deliveries = (0..times).map(|_| store.append_once(&key, &id, said.clone()));
            let mut deliveries: Vec<_> = deliveries.collect();
            let mut taken = 0_usize;
            // Submitted before the first is answered.
            if let [first, second] = &mut deliveries[..] {
                let (first, second) = tokio::join!(first, second);
                let both = [&first, &second].into_iter();
                taken = both.filter(|r| matches!(r, Ok(Appended::New(_)))).count();
                // Either may have been refused; the other was taken all the same.
                if taken == 0 {
                    first.and(second)?;
                }
            } else {
                for delivery in deliveries {
                    taken += usize::from(matches!(delivery.await?, Appended::New(_)));
                }
            }
            assert_eq!(taken, 1, "{key} took {id} {taken} times");
            Ok(())
        })
    }

    /// Summarises what is older than the window that a model is given next, in one commit:
    /// a message that came while the model wrote the summary would stay.
    async fn shrink(&mut self, last: &Inbound) -> Result<(), Stop> {
        let unreadable = |error: Error| Stop::Chat(error.to_string());
        let budget = Budget::unlimited().messages(KEEP).unpaired(Unpaired::Error);
        let window = self.store.window(&self.key, budget).await;
        let window = window.map_err(unreadable)?;
        let keep = window.messages.len();
        let summary = bot::summary(self.turn, window.omitted, last);
        let effect = Effect::Shrink(text_fingerprint(&summary), keep);
        let update = Update::new()
            .expect(window.version)
            .summary(summary)
            .keep(Keep::From(window.start));
        let update = self.store.update(&self.key, update);
        let submitted = Reply::from_future(async { update.await.map(drop) });
        self.submit(effect, submitted).await?;
        self.from_user.drain(..window.omitted);
        self.tally.truncations += 1;
        Ok(())
    }

    /// Submits one command and waits until the store answers for it.
    async fn submit(&mut self, effect: Effect, reply: Reply<()>) -> Result<Duration, Stop> {
        let plan = Arc::clone(&self.plan);
        let acks = plan.acks.as_ref();
        self.commands += 1;
        if let Some(acks) = acks {
            acks.submitting(&self.key, self.commands, &effect)?;
        }
        let submitted = Instant::now();
        let answer = reply.await;
        let latency = submitted.elapsed();
        let ledger = self
            .ledger
            .get_or_insert_with(|| Ledger::starting_from(ChatState::empty()));
        match answer {
            Ok(()) => {
                ledger.acknowledged.apply(&effect);
                if let Some(acks) = acks {
                    acks.acknowledged(&self.key, self.commands)?;
                }
                Ok(latency)
            }
            Err(error) if took_no_effect(&error) => {
                if let Some(acks) = acks {
                    acks.refused(&self.key, self.commands)?;
                }
                Err(Stop::after(error))
            }
            Err(error) => {
                ledger.in_doubt = Some(effect);
                Err(Stop::after(error))
            }
        }
    }
}

/// Whether the store promises that a command failing so changed nothing.
fn took_no_effect(error: &Error) -> bool {
    is_refusal(error)
        || matches!(
            error,
            Error::StorageFull { .. } | Error::Closed | Error::ReadOnly
        )
}

/// Whether the store turned the command away for what it holds, untouched.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidKey { .. } | Error::InvalidMessage { .. } | Error::MessageTooLarge { .. }
    )
}
