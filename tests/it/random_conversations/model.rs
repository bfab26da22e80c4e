//! What a conversation is, without files.

use std::collections::BTreeMap;

use sessionlog::Fork;

/// A line of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Message(String),
    Usage(i64),
    Checkpoint { id: i64, lost: bool },
    Prompt(String),
}

/// A session's lines, and how many of them are hidden.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    pub(crate) lines: Vec<Line>,
    pub(crate) skip: usize,
    backups: Vec<(Vec<Line>, usize)>,
}

/// What can be asked of a conversation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) history: Vec<String>,
    pub(crate) tokens: i64,
    pub(crate) pending: i64,
    pub(crate) next: i64,
    pub(crate) prompt: Option<String>,
    pub(crate) usages: Vec<i64>,
    pub(crate) backups: Vec<u64>,
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Model {
    sessions: BTreeMap<&'static str, Session>,
}

impl Model {
    pub(crate) fn session(&mut self, key: &'static str) -> &mut Session {
        self.sessions.entry(key).or_default()
    }

    pub(crate) fn state(&self, key: &str) -> State {
        self.sessions.get(key).cloned().unwrap_or_default().state()
    }

    pub(crate) fn revert(&mut self, key: &str, id: i64) -> Result<(), (Vec<i64>, bool)> {
        match self.sessions.get_mut(key) {
            Some(session) => {
                let cut = session.find(id)?;
                session.keep();
                session.lines.truncate(cut);
                Ok(())
            }
            None => Err((Vec::new(), false)),
        }
    }

    pub(crate) fn clear(&mut self, key: &str) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.keep();
            session.lines.clear();
            session.skip = 0;
        }
    }

    pub(crate) fn truncate(&mut self, key: &str, keep: usize) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.truncate(keep);
        }
    }

    pub(crate) fn compact(&mut self, key: &str) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.compact();
        }
    }

    pub(crate) fn fork(&mut self, from: &str, to: &'static str, at: Fork) -> bool {
        let Some(source) = self.sessions.get(from) else {
            return false;
        };
        let cut = match at {
            Fork::Message(n) => source.after_message(n as usize),
            Fork::Checkpoint(id) => match source.find(id.number()) {
                Ok(cut) => cut,
                Err(_) => return false,
            },
            _ => source.lines.len(),
        };
        let copy = Session {
            lines: source.lines[..cut].to_vec(),
            skip: source.skip.min(cut),
            backups: Vec::new(),
        };
        if self.sessions.contains_key(to) {
            return false;
        }
        self.sessions.insert(to, copy);
        true
    }

    pub(crate) fn restore(&mut self, key: &str, number: u64) -> bool {
        let Some(session) = self.sessions.get_mut(key) else {
            return false;
        };
        let Some(nth) = (number as usize).checked_sub(1) else {
            return false;
        };
        let Some((lines, skip)) = session.backups.get(nth).cloned() else {
            return false;
        };
        session.keep();
        (session.lines, session.skip) = (lines, skip);
        true
    }

    pub(crate) fn delete(&mut self, key: &str) {
        self.sessions.remove(key);
    }

    pub(crate) fn set_history(&mut self, key: &'static str, text: &str) {
        let session = self.session(key);
        session.lines = vec![Line::Message(text.into())];
        session.skip = 0;
    }
}

impl Session {
    /// How many lines there are up to and with the `n`th live message.
    fn after_message(&self, n: usize) -> usize {
        let live = self.lines.iter().enumerate().skip(self.skip);
        let mut messages = live.filter(|(_, line)| matches!(line, Line::Message(_)));
        let sought = messages.nth(n.saturating_sub(1));
        sought.map_or(self.lines.len(), |(place, _)| place + n.min(1))
    }

    pub(crate) fn append(&mut self, texts: &[String]) {
        self.lines.extend(texts.iter().cloned().map(Line::Message));
    }

    pub(crate) fn usage(&mut self, tokens: i64) {
        self.lines.push(Line::Usage(tokens));
    }

    pub(crate) fn checkpoint(&mut self, message: bool) -> i64 {
        let id = self.next();
        self.lines.push(Line::Checkpoint { id, lost: false });
        if message {
            let text = format!("<system>CHECKPOINT {id}</system>");
            self.lines.push(Line::Message(text));
        }
        id
    }

    pub(crate) fn prompt(&mut self, prompt: &str) {
        self.lines.push(Line::Prompt(prompt.into()));
    }

    fn keep(&mut self) {
        if !self.lines.is_empty() {
            self.backups.push((self.lines.clone(), self.skip));
        }
    }

    fn truncate(&mut self, keep: usize) {
        let live = self.lines.iter().enumerate().skip(self.skip);
        let messages = live.filter(|(_, line)| matches!(line, Line::Message(_)));
        let places: Vec<usize> = messages.map(|(nth, _)| nth).collect();
        if keep == 0 || places.is_empty() {
            self.skip = self.lines.len();
        } else if keep < places.len() {
            self.skip = places[places.len() - keep - 1] + 1;
        }
    }

    fn compact(&mut self) {
        let hidden: Vec<Line> = self.lines.drain(..self.skip).collect();
        self.skip = 0;
        let last = |wanted: fn(&Line) -> bool| hidden.iter().rev().find(|line| wanted(line));
        let prompt = last(|line| matches!(line, Line::Prompt(_))).cloned();
        let usage = last(|line| matches!(line, Line::Usage(_))).cloned();
        let checkpoint = match last(|line| matches!(line, Line::Checkpoint { .. })) {
            Some(Line::Checkpoint { id, .. }) => Some(Line::Checkpoint {
                id: *id,
                lost: true,
            }),
            _ => None,
        };
        let carried = [prompt, checkpoint, usage].into_iter().flatten();
        self.lines.splice(0..0, carried);
    }

    /// Where a checkpoint stands, or those that there are, and whether it was
    /// there.
    fn find(&self, id: i64) -> Result<usize, (Vec<i64>, bool)> {
        let live = self.lines.iter().enumerate().skip(self.skip);
        let existing: Vec<(usize, i64)> = live
            .filter_map(|(nth, line)| match line {
                Line::Checkpoint { id, lost: false } => Some((nth, *id)),
                _ => None,
            })
            .collect();
        let found = existing.iter().find(|(_, other)| *other == id);
        found.map(|(nth, _)| *nth).ok_or_else(|| {
            let ids = existing.iter().map(|(_, id)| *id).collect();
            (ids, (0..self.next()).contains(&id))
        })
    }

    fn next(&self) -> i64 {
        let last = self.lines.iter().rev().find_map(|line| match line {
            Line::Checkpoint { id, .. } => Some(id + 1),
            _ => None,
        });
        last.unwrap_or(0)
    }

    fn state(&self) -> State {
        let usages: Vec<i64> = self
            .lines
            .iter()
            .filter_map(|line| match line {
                Line::Usage(tokens) => Some(*tokens),
                _ => None,
            })
            .collect();
        let counted = self
            .lines
            .iter()
            .rposition(|line| matches!(line, Line::Usage(_)));
        let since = counted.unwrap_or(0).max(self.skip);
        let pending: usize = self.lines[since..]
            .iter()
            .map(|line| match line {
                Line::Message(text) => text.chars().count(),
                _ => 0,
            })
            .sum();
        let tokens = usages.last().copied().unwrap_or(0);
        State {
            history: self.texts().cloned().collect(),
            tokens,
            pending: tokens + (pending / 4) as i64,
            next: self.next(),
            prompt: self.lines.iter().rev().find_map(|line| match line {
                Line::Prompt(prompt) => Some(prompt.clone()),
                _ => None,
            }),
            usages,
            backups: (1..=self.backups.len() as u64).collect(),
        }
    }
}
