//! One who writes a session as PicoClaw does, and knows what it holds.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use sessionlog::{BackupLimits, Durability, Error, Message, Reply, Result, StoreHandle};
use shuttle::future::block_on;

use crate::dice::Dice;
use crate::states::{States, Texts};
use crate::trouble::{Kind, Trouble, is_refusal};

/// The session whose history others take over.
pub(crate) const SOURCE: &str = "source";

/// The one who writes a session.
pub(crate) struct Writer {
    pub(crate) handle: StoreHandle,
    pub(crate) key: String,
    pub(crate) states: Arc<States>,
    pub(crate) dice: Dice,
    pub(crate) trouble: Trouble,
    /// Whether an answer means that the disk has it, of the command under way.
    durable: bool,
    /// Whether some commands are durable, and some are not.
    pub(crate) mixed: bool,
    /// Whether mailboxes have room for everybody: then what is submitted keeps its order.
    pub(crate) roomy: bool,
    now: Texts,
    /// Whether the session has the alias of whose history it may take over.
    claims: bool,
    said: usize,
    over: bool,
}

impl Writer {
    pub(crate) fn new(
        handle: StoreHandle,
        (key, states): (&str, Arc<States>),
        dice: Dice,
        trouble: Trouble,
    ) -> Self {
        Self {
            handle,
            key: key.into(),
            states,
            dice,
            trouble,
            durable: true,
            mixed: false,
            roomy: true,
            now: Vec::new(),
            claims: false,
            said: 0,
            over: false,
        }
    }

    pub(crate) fn write(mut self, times: usize) {
        for _ in 0..times {
            self.go_on();
            if self.over {
                return;
            }
            if self.dice.once_in(3) {
                self.look();
            }
        }
    }

    fn go_on(&mut self) {
        self.durable = !self.mixed || self.dice.once_in(2);
        self.handle = self.handle.with_durability(if self.durable {
            Durability::Durable
        } else {
            Durability::Buffered
        });
        match self.dice.below(16) {
            0..4 => self.append(1),
            4 => self.append(2),
            5..8 => self.append_two(),
            8 => self.leave(),
            9..11 => self.truncate(),
            11 => self.replace(),
            12 => self.delete(),
            13 => {
                let (reply, same) = (self.handle.compact(&self.key), self.now.clone());
                self.act(reply, same, false);
            }
            14 => self.promote(),
            _ => self.prune(),
        }
    }

    fn append(&mut self, messages: usize) {
        let texts: Texts = (0..messages).map(|_| self.next_text()).collect();
        let reply = if let [text] = texts.as_slice() {
            self.handle.add_message(&self.key, "user", text)
        } else {
            let messages = texts.iter().map(Message::user).collect();
            self.handle.append_all(&self.key, messages)
        };
        let after = [self.now.clone(), texts].concat();
        if self.dice.once_in(2) {
            self.act(reply, after, self.durable);
        } else {
            self.states.begin(after.clone());
            let result = reply.wait();
            self.told(result, after, self.durable);
        }
    }

    /// Two appends under way at once.
    fn append_two(&mut self) {
        let (first, second) = (self.next_text(), self.next_text());
        self.states.begin(self.with(&[&first]));
        self.states.begin(self.with(&[&first, &second]));
        if !self.roomy || self.trouble.kind != Kind::None {
            self.states.begin(self.with(&[&second]));
            self.states.begin(self.with(&[&second, &first]));
        }
        let mut submitted = [&first, &second].map(|text| {
            let mut reply = self.handle.add_message(&self.key, "user", text);
            let early = early(&mut reply);
            Some((reply, early))
        });
        let blocks = self.dice.once_in(2);
        let mut results = submitted.iter_mut().map(|submitted| {
            let (reply, early) = submitted.take().expect("once");
            early.unwrap_or_else(|| {
                if blocks {
                    reply.wait()
                } else {
                    block_on(reply)
                }
            })
        });
        let results = (results.next().expect("two"), results.next().expect("two"));
        let after = match &results {
            (Ok(()), Ok(())) if self.roomy => self.with(&[&first, &second]),
            (Ok(()), Ok(())) => {
                let either = [[&first, &second], [&second, &first]];
                return self.find_out(&either.map(|texts| self.with(&texts)));
            }
            (Err(error), _) | (_, Err(error)) if !is_refusal(error) => {
                // Nobody knows what became of either.
                self.trouble.excuses(error, &self.key);
                self.over = true;
                return;
            }
            (Ok(()), Err(_)) => self.with(&[&first]),
            (Err(_), Ok(())) => self.with(&[&second]),
            (Err(_), Err(_)) => self.now.clone(),
        };
        for error in [results.0, results.1]
            .iter()
            .filter_map(|r| r.as_ref().err())
        {
            self.trouble.excuses(error, &self.key);
            self.over |= matches!(error, Error::Closed);
        }
        let kept = self.durable && after != self.now;
        self.now.clone_from(&after);
        self.states.reach(after, kept);
    }

    /// An append that nobody waits for, and one after it.
    fn leave(&mut self) {
        let (left, last) = (self.next_text(), self.next_text());
        self.states.begin(self.with(&[&left]));
        self.states.begin(self.with(&[&last]));
        self.states.begin(self.with(&[&left, &last]));
        let mut reply = self.handle.add_message(&self.key, "user", &left);
        drop(early(&mut reply));
        drop(reply);
        match block_on(self.handle.add_message(&self.key, "user", &last)) {
            Ok(()) => {
                let either = [vec![&last], vec![&left, &last]];
                self.find_out(&either.map(|texts| self.with(&texts)));
            }
            Err(error) => {
                self.trouble.excuses(&error, &self.key);
                self.over = true;
            }
        }
    }

    fn truncate(&mut self) {
        let kept = self.dice.below(3);
        let after = self.now[self.now.len().saturating_sub(kept)..].to_vec();
        self.act(self.handle.truncate_history(&self.key, kept), after, true);
    }

    fn replace(&mut self) {
        let texts: Texts = (0..2).map(|_| self.next_text()).collect();
        let messages = texts.iter().map(Message::user).collect();
        self.act(self.handle.set_history(&self.key, messages), texts, true);
    }

    fn delete(&mut self) {
        let deleted = self.act(self.handle.delete_session(&self.key), Vec::new(), true);
        self.claims &= deleted.is_none();
    }

    /// Only a session that shows nothing takes another's history over, and what is on
    /// its way in counts.
    fn promote(&mut self) {
        let text = self.next_text();
        let begun = self.dice.once_in(2);
        let mut added = None;
        if begun && self.roomy {
            self.states.begin(self.with(&[&text]));
            let mut reply = self.handle.add_message(&self.key, "user", &text);
            let early = early(&mut reply);
            added = Some((reply, early));
            self.now.push(text);
        }
        let mut after = self.now.clone();
        let ensures = self.dice.once_in(2);
        let takes = after.is_empty() && !(ensures && self.claims);
        if takes {
            after.push(SOURCE.into());
        }
        let (key, aliases) = (&self.key, vec![SOURCE.into()]);
        let promoted = if ensures {
            self.handle.ensure_session_metadata(key, None, aliases)
        } else {
            self.handle.promote_alias_history(key, None, aliases)
        };
        self.states.begin(after.clone());
        let promoted = block_on(promoted);
        if let Some((reply, early)) = added {
            let result = early.unwrap_or_else(|| block_on(reply));
            if let Err(error) = result {
                self.trouble.excuses(&error, &self.key);
                self.over = true;
                return;
            }
        }
        let promoted = self.told(promoted, after, takes);
        assert!(promoted.is_none_or(|promoted| promoted == takes));
        self.claims |= promoted.is_some() && (ensures || takes);
    }

    fn prune(&mut self) {
        let limits = BackupLimits::new().count(1);
        let (reply, same) = (
            self.handle.prune_backups(&self.key, limits),
            self.now.clone(),
        );
        self.act(reply, same, false);
    }

    /// Who writes alone sees what they wrote.
    fn look(&mut self) {
        match block_on(self.handle.history(&self.key)) {
            Ok(messages) => assert_eq!(texts(&messages), self.now, "{}: written", self.key),
            Err(error) => self.trouble.excuses(&error, &self.key),
        }
    }

    fn find_out(&mut self, either: &[Texts]) {
        match block_on(self.handle.history(&self.key)) {
            Ok(messages) => {
                let seen = texts(&messages);
                assert!(either.contains(&seen), "{seen:?}, not one of {either:?}");
                self.now.clone_from(&seen);
                self.states.reach(seen, self.durable);
            }
            Err(error) => {
                self.trouble.excuses(&error, &self.key);
                self.over = true;
            }
        }
    }

    fn act<T: Send + 'static>(&mut self, reply: Reply<T>, after: Texts, kept: bool) -> Option<T> {
        self.states.begin(after.clone());
        let result = block_on(reply);
        self.told(result, after, kept)
    }

    /// `kept`: if it went well, the disk has it.
    fn told<T>(&mut self, result: Result<T>, after: Texts, kept: bool) -> Option<T> {
        match result {
            Ok(value) => {
                self.now.clone_from(&after);
                self.states.reach(after, kept);
                Some(value)
            }
            Err(error) => {
                self.trouble.excuses(&error, &self.key);
                if is_refusal(&error) {
                    self.states.reach(self.now.clone(), false);
                } else {
                    self.states.begin(self.now.clone());
                }
                self.over |= !matches!(error, Error::StorageFull { .. });
                None
            }
        }
    }

    fn with(&self, texts: &[&String]) -> Texts {
        let more = texts.iter().map(|text| String::clone(text));
        self.now.iter().cloned().chain(more).collect()
    }

    fn next_text(&mut self) -> String {
        self.said += 1;
        format!("{}.{}", self.key, self.said)
    }
}

/// Submits; the answer, if it is there at once.
pub(crate) fn early<T: Send + 'static>(reply: &mut Reply<T>) -> Option<Result<T>> {
    match Pin::new(reply).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

pub(crate) fn texts(messages: &[Message]) -> Texts {
    messages.iter().map(|m| m.text().into_owned()).collect()
}
