//! One who writes a session as kimi-cli does: with checkpoints, and ways back.

use std::collections::BTreeMap;
use std::sync::Arc;

use sessionlog::{BackupLimits, Error, Message, Result, StoreHandle};
use shuttle::future::block_on;

use crate::dice::Dice;
use crate::picoclaw::{early, texts};
use crate::states::{States, Texts};
use crate::trouble::{Trouble, is_refusal};

/// What a session holds: messages and checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    Text(String),
    Checkpoint(i64),
}

pub(crate) struct Kimi {
    pub(crate) handle: StoreHandle,
    pub(crate) key: String,
    pub(crate) states: Arc<States>,
    pub(crate) dice: Dice,
    pub(crate) trouble: Trouble,
    pub(crate) durable: bool,
    /// Whether mailboxes have room for everybody: then what is submitted keeps its order.
    pub(crate) roomy: bool,
    now: Vec<Line>,
    /// What the backups hold, by their number.
    backups: BTreeMap<u64, Vec<Line>>,
    said: usize,
    over: bool,
}

impl Kimi {
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
            roomy: true,
            now: Vec::new(),
            backups: BTreeMap::new(),
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
        let context = self.handle.context(&self.key);
        match self.dice.below(10) {
            0..4 => {
                self.said += 1;
                let text = format!("{}.{}", self.key, self.said);
                let mut after = self.now.clone();
                after.push(Line::Text(text.clone()));
                self.begin(&after);
                let result = block_on(context.append_message(Message::user(text)));
                self.told(result, after, self.durable);
            }
            4..6 => {
                let id = self.checkpoints().max().map_or(0, |last| last + 1);
                let mut after = self.now.clone();
                after.push(Line::Checkpoint(id));
                let given = block_on(context.checkpoint(false));
                let given = self.told(given, after, self.durable);
                assert!(given.is_none_or(|given| given == id), "{given:?}, not {id}");
            }
            6 => {
                let known: Vec<i64> = self.checkpoints().collect();
                if known.is_empty() {
                    return;
                }
                let id = known[self.dice.below(known.len())];
                let at = self.now.iter().position(|l| *l == Line::Checkpoint(id));
                let after = self.now[..at.expect("is known")].to_vec();
                self.begin(&after);
                let result = block_on(context.revert_to(id));
                self.told_with_backup(result, after);
            }
            7 => {
                self.begin(&[]);
                let result = block_on(context.clear());
                self.told_with_backup(result, Vec::new());
            }
            8 => self.restore(),
            _ if self.roomy && self.dice.once_in(2) => self.restore_and_prune(),
            _ => {
                let kept = self.dice.below(2);
                let limits = BackupLimits::new().count(kept);
                let result = block_on(self.handle.prune_backups(&self.key, limits));
                let same = self.now.clone();
                let pruned = self.told(result, same, false);
                while pruned.is_some() && self.backups.len() > kept {
                    self.backups.pop_first();
                }
            }
        }
    }

    fn restore(&mut self) {
        let Some(number) = self.any_backup() else {
            return;
        };
        let after = self.backups[&number].clone();
        self.begin(&after);
        let result = block_on(self.handle.restore_backup(&self.key, number));
        self.told_with_backup(result, after);
    }

    /// All backups are pruned while one of them is put back.
    fn restore_and_prune(&mut self) {
        let Some(number) = self.any_backup() else {
            return;
        };
        let (before, after) = (self.now.clone(), self.backups[&number].clone());
        self.begin(&after);
        let mut restored = self.handle.restore_backup(&self.key, number);
        let answered = early(&mut restored);
        let none = BackupLimits::new().count(0);
        let pruned = block_on(self.handle.prune_backups(&self.key, none));
        let restored = answered.unwrap_or_else(|| block_on(restored));
        let restored = self.told(restored, after, true);
        let same = self.now.clone();
        let pruned = self.told(pruned, same, false);
        if restored.is_none() || pruned.is_none() {
            self.over = true;
            return;
        }
        let Some(numbers) = self.list() else { return };
        let gone = std::mem::take(&mut self.backups);
        match numbers.as_slice() {
            [] => {}
            [fresh] if !gone.contains_key(fresh) => {
                self.backups.insert(*fresh, before);
            }
            left => panic!("{}: backups {left:?} are left", self.key),
        }
    }

    fn any_backup(&mut self) -> Option<u64> {
        let numbers = self.list()?;
        let known: Vec<_> = self.backups.keys().copied().collect();
        assert_eq!(numbers, known, "{}: backups", self.key);
        (!numbers.is_empty()).then(|| numbers[self.dice.below(numbers.len())])
    }

    /// The present state went into a backup, if there was anything.
    fn told_with_backup(&mut self, result: Result<()>, after: Vec<Line>) {
        let before = self.now.clone();
        if self.told(result, after, true).is_none() {
            return;
        }
        let Some(numbers) = self.list() else { return };
        let gone = self.backups.keys().find(|number| !numbers.contains(number));
        assert_eq!(gone, None, "{}: a backup is gone", self.key);
        let fresh: Vec<_> = numbers
            .iter()
            .filter(|number| !self.backups.contains_key(number))
            .collect();
        match fresh.as_slice() {
            [] => assert!(before.is_empty(), "{}: no backup of {before:?}", self.key),
            [number] => {
                self.backups.insert(**number, before);
            }
            more => panic!("{}: backups {more:?} at once", self.key),
        }
    }

    fn list(&mut self) -> Option<Vec<u64>> {
        match block_on(self.handle.list_backups(&self.key)) {
            Ok(backups) => {
                let mut numbers: Vec<_> = backups.iter().map(|backup| backup.number).collect();
                numbers.sort_unstable();
                Some(numbers)
            }
            Err(error) => {
                self.trouble.excuses(&error, &self.key);
                self.over = true;
                None
            }
        }
    }

    fn look(&mut self) {
        match block_on(self.handle.history(&self.key)) {
            Ok(messages) => assert_eq!(texts(&messages), said(&self.now), "{}", self.key),
            Err(error) => self.trouble.excuses(&error, &self.key),
        }
    }

    fn checkpoints(&self) -> impl Iterator<Item = i64> {
        self.now.iter().filter_map(|line| match line {
            Line::Checkpoint(id) => Some(*id),
            Line::Text(_) => None,
        })
    }

    fn begin(&self, after: &[Line]) {
        self.states.begin(said(after));
    }

    /// `kept`: if it went well, the disk has it.
    fn told<T>(&mut self, result: Result<T>, after: Vec<Line>, kept: bool) -> Option<T> {
        match result {
            Ok(value) => {
                self.states.reach(said(&after), kept);
                self.now = after;
                Some(value)
            }
            Err(error) => {
                self.trouble.excuses(&error, &self.key);
                if is_refusal(&error) {
                    self.states.reach(said(&self.now), false);
                } else {
                    self.states.begin(said(&self.now));
                }
                self.over |= !matches!(error, Error::StorageFull { .. });
                None
            }
        }
    }
}

fn said(lines: &[Line]) -> Texts {
    let texts = lines.iter().filter_map(|line| match line {
        Line::Text(text) => Some(text.clone()),
        Line::Checkpoint(_) => None,
    });
    texts.collect()
}
