//! Those who read, flush, share a session, or go by its aliases.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::rig::RigControl;
use sessionlog::testing::running::read_only;
use sessionlog::{
    Appended, ChangeFilter, Erase, Error, Message, Result, StoreHandle, Update, Version,
};
use shuttle::future::block_on;

use crate::dice::Dice;
use crate::picoclaw::texts;
use crate::states::{States, Texts};
use crate::trouble::{Kind, Trouble};

/// The session that several append to.
pub(crate) const SHARED: &str = "shared";

/// The session that is erased.
pub(crate) const FORGOTTEN: &str = "forgotten";

/// Whoever is no session's only writer.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) handle: StoreHandle,
    pub(crate) control: RigControl,
    pub(crate) sessions: Vec<(String, Arc<States>)>,
    /// The sessions that get aliases, and which.
    pub(crate) named: Vec<(&'static str, Arc<States>)>,
    pub(crate) ids: Arc<Ids>,
    /// Whether what is answered survives a power loss.
    pub(crate) durable: bool,
    pub(crate) trouble: Trouble,
    pub(crate) dice: Dice,
}

/// Message ids that the shared session took.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    pub(crate) taken: Mutex<Vec<String>>,
    /// A disk as a power loss left it, and those that were taken before.
    pub(crate) lost: Mutex<Option<(MemoryStorage, Vec<String>)>>,
}

impl Caller {
    /// Looks at sessions that others write to, now and as a power loss would leave them.
    pub(crate) fn read(mut self, times: usize) {
        for _ in 0..times {
            let (key, states) = self.any_session();
            let (seen, kept) = states.mark();
            match self.dice.below(4) {
                0 | 1 => match block_on(self.handle.history(&key)) {
                    Ok(messages) => states.check(seen, &texts(&messages), "a reader"),
                    Err(error) => self.trouble.excuses(&error, "a caller"),
                },
                2 if self.trouble.kind != Kind::Failing => {
                    if let Some(moment) = self.control.moment(&key) {
                        let (lines, live) = (moment.lines.len() as i64, moment.count - moment.skip);
                        assert_eq!(lines, live, "{key}: torn");
                    }
                }
                _ => {
                    let image = Image::NAMED[self.dice.below(Image::NAMED.len())];
                    let (named, aliases) = self.named[self.dice.below(self.named.len())].clone();
                    let (_, kept_aliases) = aliases.mark();
                    let taken = known(&self.ids.taken).clone();
                    let disk = self.trouble.storage.image(image);
                    states.check_lost(kept, &after_power_loss(disk.clone(), &key));
                    aliases.check_lost(kept_aliases, &aliases_after_crash(disk.clone(), named));
                    *known(&self.ids.lost) = Some((disk, taken));
                }
            }
        }
    }

    /// Flushes, and compacts others' sessions.
    pub(crate) fn tidy(mut self, times: usize) {
        for _ in 0..times {
            if self.dice.once_in(2) {
                let (key, _) = self.any_session();
                if let Err(error) = block_on(self.handle.compact(&key)) {
                    self.trouble.excuses(&error, "a caller");
                }
                continue;
            }
            let marks: Vec<_> = self.sessions.iter().map(|(_, s)| s.mark().0).collect();
            match block_on(self.handle.flush()) {
                Ok(()) => {
                    for ((_, states), mark) in self.sessions.iter().zip(marks) {
                        states.keep(mark);
                    }
                }
                Err(error) => self.trouble.excuses(&error, "a caller"),
            }
        }
    }

    /// Appends to the session that others append to as well: every line once, in order.
    pub(crate) fn share(mut self, name: &str, times: usize) -> Texts {
        let mut accepted = Texts::new();
        for number in 0..times {
            let text = format!("{name}.{number}");
            match self.say(&text, number) {
                Ok(true) => accepted.push(text),
                Ok(false) => {}
                Err(error) => {
                    self.trouble.excuses(&error, "a caller");
                    if !matches!(error, Error::StorageFull { .. }) {
                        return accepted;
                    }
                    continue;
                }
            }
            match block_on(self.handle.history(SHARED)) {
                Ok(messages) => check_shared(&texts(&messages), name, &accepted),
                Err(error) => self.trouble.excuses(&error, "a caller"),
            }
        }
        accepted
    }

    /// Whether a line was taken: of those that several deliver under one id, the first is.
    fn say(&mut self, text: &str, number: usize) -> Result<bool> {
        match self.dice.below(4) {
            0 => self.deliver(text, &number.to_string()),
            1 => self.decide(text).map(|()| true),
            _ => block_on(self.handle.add_message(SHARED, "user", text)).map(|()| true),
        }
    }

    /// Delivers a line twice.
    fn deliver(&self, text: &str, id: &str) -> Result<bool> {
        let deliver = || block_on(self.handle.append_once(SHARED, id, Message::user(text)));
        let first = deliver()?;
        known(&self.ids.taken).push(id.into());
        match deliver() {
            Ok(again) => assert!(matches!(again, Appended::Duplicate(_)), "{id}: {again:?}"),
            Err(error) => self.trouble.excuses(&error, "a caller"),
        }
        Ok(matches!(first, Appended::New(_)))
    }

    /// Adds a line only to what it saw, until nobody came between.
    fn decide(&self, text: &str) -> Result<()> {
        loop {
            let seen = block_on(self.handle.snapshot(SHARED))?.version();
            let update = Update::new().expect(seen).append(Message::user(text));
            match block_on(self.handle.update(SHARED, update)) {
                Ok(made) => {
                    assert_ne!(made, seen, "a version twice");
                    return Ok(());
                }
                Err(Error::VersionConflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Is told of every line of the shared session until the store ends; how many lines,
    /// unless the store ended first.
    pub(crate) fn listen(self) -> Option<u64> {
        let mut watch = block_on(self.handle.subscribe(SHARED)).ok()?;
        let mut lines = watch.latest().lines;
        loop {
            if self.trouble.kind != Kind::Failing
                && let Some(moment) = self.control.moment(SHARED)
            {
                let seen = moment.lines.len() as u64;
                assert!(seen >= lines, "told of {lines} lines, saw {seen}");
            }
            let Ok(state) = block_on(watch.changed()) else {
                return Some(lines);
            };
            assert!(state.lines >= lines, "lines went away");
            lines = state.lines;
        }
    }

    /// Follows all sessions until the store ends. After a change was told, no read returns an
    /// earlier state.
    pub(crate) fn follow(self) {
        let mut changes = self.handle.changes(ChangeFilter::new());
        let mut passed = BTreeMap::<String, Vec<Version>>::new();
        loop {
            let change = match block_on(changes.next()) {
                Ok(change) => change,
                Err(Error::ChangesMissed { .. }) => continue,
                Err(error) => return self.trouble.excuses(&error, "a follower"),
            };
            let passed = passed.entry(change.key.clone()).or_default();
            assert!(!passed.contains(&change.version), "told twice: {change:?}");
            match block_on(self.handle.snapshot(&change.key)) {
                Ok(seen) => assert!(
                    !passed.contains(&seen.version()),
                    "{change:?}: an earlier state"
                ),
                Err(error) => self.trouble.excuses(&error, "a follower"),
            }
            passed.push(change.version);
        }
    }

    /// Adds a message and erases it. No image of the disk after a power loss contains it.
    pub(crate) fn forget(self, times: usize) {
        for number in 0..times {
            let secret = format!("secret-{number}");
            let said = self.handle.add_message(FORGOTTEN, "user", &secret);
            if let Err(error) = block_on(said) {
                return self.trouble.excuses(&error, "a caller");
            }
            match block_on(self.handle.erase(Erase::key(FORGOTTEN))) {
                Ok(_) => self.check_gone(&secret),
                Err(error) => return self.trouble.excuses(&error, "a caller"),
            }
        }
    }

    fn check_gone(&self, secret: &str) {
        for image in &Image::NAMED {
            for (name, bytes) in self.trouble.storage.image(*image).dump() {
                let text = String::from_utf8_lossy(&bytes);
                assert!(!text.contains(secret), "{name} has {secret}: {image:?}");
            }
        }
    }

    /// Gives a session aliases, one of which another session claims as well.
    pub(crate) fn name(self, nth: usize, times: usize) {
        let (key, states) = &self.named[nth];
        let upsert = |aliases: Texts| {
            states.begin(aliases.clone());
            block_on((self.handle).upsert_session_meta(key, None, aliases.clone()))?;
            states.reach(aliases, self.durable);
            Ok(())
        };
        for number in 0..times {
            let own = format!("{key}-alias-{number}");
            match upsert(vec![own.clone(), "claimed-by-two".into()]) {
                Ok(()) => {}
                Err(error) => return self.trouble.excuses(&error, "a caller"),
            }
            self.check_resolved(&own, |found| found == Some(*key));
            self.check_resolved("claimed-by-two", |found| found.is_some());
            match upsert(Vec::new()) {
                Ok(()) => self.check_resolved(&own, |found| found.is_none()),
                Err(error) => return self.trouble.excuses(&error, "a caller"),
            }
        }
    }

    fn check_resolved(&self, key: &str, expected: impl Fn(Option<&str>) -> bool) {
        match block_on(self.handle.resolve_session_key(key)) {
            Ok(found) => assert!(expected(found.as_deref()), "{key} is {found:?}"),
            Err(error) => self.trouble.excuses(&error, "a caller"),
        }
    }

    fn any_session(&mut self) -> (String, Arc<States>) {
        let at = self.dice.below(self.sessions.len());
        self.sessions[at].clone()
    }
}

/// What a lock of std holds: it is no part of what is explored.
pub(crate) fn known<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a session says after a crash that left this disk.
pub(crate) fn after_crash(storage: MemoryStorage, key: &str) -> Texts {
    let reader = read_only(Arc::new(storage)).expect("opens after a crash");
    let messages = block_on(reader.history(key)).expect("is readable after a crash");
    texts(&messages)
}

/// The same, of a disk with all that was synced: a session that says anything is listed.
pub(crate) fn after_power_loss(storage: MemoryStorage, key: &str) -> Texts {
    let left = after_crash(storage.clone(), key);
    let reader = read_only(Arc::new(storage)).expect("opens after a crash");
    let listed = block_on(reader.list_sessions()).expect("is readable after a crash");
    let is_listed = listed.iter().any(|listed| listed == key);
    assert!(left.is_empty() || is_listed, "{key}: {listed:?}");
    left
}

/// A session's aliases after such a crash, each of which leads to it.
pub(crate) fn aliases_after_crash(storage: MemoryStorage, key: &str) -> Texts {
    let reader = read_only(Arc::new(storage)).expect("opens after a crash");
    let meta = block_on(reader.session_meta(key)).expect("is readable after a crash");
    for own in meta.aliases.iter().filter(|alias| alias.starts_with(key)) {
        let found = block_on(reader.resolve_session_key(own)).expect("is readable");
        assert_eq!(found.as_deref(), Some(key), "{own}");
    }
    meta.aliases
}

/// Every accepted line of `name` is there once, in order, and no other.
pub(crate) fn check_shared(seen: &Texts, name: &str, accepted: &Texts) {
    let prefix = format!("{name}.");
    let own = seen.iter().filter(|text| text.starts_with(&prefix));
    assert!(
        own.eq(accepted),
        "{name}: {accepted:?} accepted, {seen:?} seen"
    );
}
