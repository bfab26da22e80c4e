//! Somebody who keeps a store busy, and remembers what it was told.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sessionlog::{BackupLimits, Durability, Message, StoreHandle};

use super::past::{Numbers, Past, State};

/// Writes to sessions that nobody else writes to, one command at a time.
#[derive(Debug)]
pub(super) struct Author {
    chats: StoreHandle,
    /// The last one is there to be promoted from.
    sessions: Vec<Arc<Past>>,
    draw: u64,
    next: u64,
}

impl Author {
    pub(super) fn new(chats: &StoreHandle, sessions: Vec<Arc<Past>>, seed: u64) -> Self {
        Self {
            chats: chats.exact_keys(),
            sessions,
            draw: seed,
            next: 1,
        }
    }

    /// Writes until `end`; how many commands.
    pub(super) fn write_until(mut self, end: Instant) -> u64 {
        let mut commands = 0;
        while Instant::now() < end {
            self.one_command();
            commands += 1;
        }
        commands
    }

    fn one_command(&mut self) {
        let chosen = self.below(self.sessions.len() as u64 - 1) as usize;
        let session = Arc::clone(&self.sessions[chosen]);
        match self.below(100) {
            0..50 => self.add(&session),
            50..58 => self.add_several(&session),
            58..70 => self.truncate(&session),
            70..78 => self.compact(&session),
            78..83 => self.set_history(&session, 0),
            83..88 => self.go_back(&session),
            88..91 => self.clear(&session),
            91..94 => self.promote(),
            94..96 => self.summarise(&session),
            96..98 => self.flush(&session),
            _ => self.fall_silent(),
        }
    }

    fn add(&mut self, session: &Past) {
        let (numbers, mut said) = self.messages(1);
        let level = match self.below(4) {
            0 => Durability::Buffered,
            _ => Durability::Durable,
        };
        session.enter("add", session.newest().with(&numbers));
        let chats = self.chats.with_durability(level);
        let said = said.remove(0);
        chats.add_full_message(&session.key, said).wait().unwrap();
    }

    fn add_several(&mut self, session: &Past) {
        let count = 1 + self.below(5);
        let (numbers, said) = self.messages(count);
        let before = session.newest();
        for part in 1..numbers.len() {
            let mut state = before.clone().with(&numbers[..part]);
            state.part = true;
            session.enter("add several, in part", state);
        }
        session.enter("add several", before.with(&numbers));
        self.chats.append_all(&session.key, said).wait().unwrap();
    }

    fn truncate(&mut self, session: &Past) {
        let held = session.newest().shown.len();
        let keep = self.below(held as u64 + 2) as usize;
        self.keep_last(session, keep);
    }

    fn keep_last(&self, session: &Past, keep: usize) {
        session.enter("truncate", session.newest().truncated(keep));
        let done = self.chats.truncate_history(&session.key, keep);
        done.wait().unwrap();
    }

    fn compact(&self, session: &Past) {
        session.enter("compact", session.newest());
        self.chats.compact(&session.key).wait().unwrap();
    }

    fn set_history(&mut self, session: &Past, least: u64) {
        let count = least + self.below(5);
        let (numbers, said) = self.messages(count);
        session.enter("set history", State::new(numbers));
        self.chats.set_history(&session.key, said).wait().unwrap();
    }

    /// Sets a checkpoint, goes on, and goes back to it.
    fn go_back(&mut self, session: &Past) {
        let context = self.chats.context(&session.key);
        session.enter("checkpoint", session.newest());
        let id = context.checkpoint(false).wait().unwrap();
        let mark = self.next;
        let count = 1 + self.below(4);
        for _ in 0..count {
            self.add(session);
        }
        if self.below(3) == 0 {
            let keep = count + self.below(4);
            self.keep_last(session, keep as usize);
        }
        session.enter("revert", session.newest().reverted(mark));
        context.revert_to(id).wait().unwrap();
    }

    fn clear(&self, session: &Past) {
        session.enter("clear", State::default());
        self.chats.context(&session.key).clear().wait().unwrap();
    }

    /// Gives a session that shows nothing what another one has.
    fn promote(&mut self) {
        let target = Arc::clone(&self.sessions[0]);
        let source = Arc::clone(&self.sessions[self.sessions.len() - 1]);
        self.set_history(&source, 3);
        let keep = 1 + self.below(3);
        self.keep_last(&source, keep as usize);
        if self.below(2) == 0 {
            self.clear(&target);
        } else {
            self.keep_last(&target, 0);
        }
        target.enter("promote", State::new(source.newest().shown));
        let aliases = vec![source.key.clone()];
        let promoted = self.chats.promote_alias_history(&target.key, None, aliases);
        assert!(promoted.wait().unwrap());
    }

    /// A session that is promoted to has no summary.
    fn summarise(&mut self, session: &Past) {
        if session.key != self.sessions[0].key {
            let summary = "s".repeat(self.below(300) as usize);
            let done = self.chats.set_summary(&session.key, &summary);
            done.wait().unwrap();
        }
    }

    fn flush(&self, session: &Past) {
        let few = BackupLimits::new().count(2);
        let done = self.chats.prune_backups(&session.key, few);
        done.wait().unwrap();
        self.chats.flush().wait().unwrap();
        for session in &self.sessions {
            session.note_flushed();
        }
    }

    /// Nobody writes without a break: what is done in one is to be seen, too.
    fn fall_silent(&mut self) {
        thread::park_timeout(Duration::from_millis(self.below(40)));
    }

    /// Messages that were never said before; a few are longer than a page.
    fn messages(&mut self, count: u64) -> (Numbers, Vec<Message>) {
        let numbers: Numbers = (self.next..self.next + count).collect();
        self.next += count;
        let said = numbers.iter().map(|number| {
            let longest = if self.below(16) == 0 { 6_000 } else { 200 };
            let rest = "x".repeat(self.below(longest) as usize);
            Message::user(format!("{number} {rest}"))
        });
        let said = said.collect();
        (numbers, said)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.draw ^= self.draw << 13;
        self.draw ^= self.draw >> 7;
        self.draw ^= self.draw << 17;
        (self.draw >> 11) % limit
    }
}
