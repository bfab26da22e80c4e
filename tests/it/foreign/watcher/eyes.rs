//! Who looks at all sessions in turn, and what was seen.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::look::Look;
use super::past::{Past, Seen};

/// How many looks that were wrong are told.
const TOLD: usize = 5;

/// A watcher.
#[derive(Debug)]
pub(super) struct Eyes {
    dir: PathBuf,
    sessions: Vec<Session>,
    pub(super) tally: Tally,
}

/// A session, and what it was seen to be.
#[derive(Debug)]
struct Session {
    past: Arc<Past>,
    /// The state that explained the last look.
    state: usize,
    /// What the last look showed.
    lines: Vec<u64>,
    /// The newest message that was ever seen.
    newest: u64,
}

/// What all looks came to.
#[derive(Debug, Default)]
pub(super) struct Tally {
    looks: u64,
    /// At which something changed meanwhile.
    moving: u64,
    /// Of those, looks at a sidecar that PicoClaw refuses.
    halves: u64,
    /// At a sidecar that was being made, and was empty.
    unmade: u64,
    /// Which showed a state.
    exact: u64,
    /// Which showed a state with hidden lines before it.
    more: u64,
    /// Of those, looks at a session that showed nothing by then.
    bare: u64,
    /// Of those with hidden lines, looks at some that had been out of sight before.
    again: u64,
    /// Which showed some of the messages that one command adds.
    parts: u64,
    /// Which found a session in a later state than before.
    pub(super) moved: u64,
    pub(super) wrong: u64,
    told: Vec<String>,
}

impl Eyes {
    pub(super) fn new(dir: &Path, pasts: &[Arc<Past>]) -> Self {
        let session = |past: &Arc<Past>| Session {
            past: Arc::clone(past),
            state: 0,
            lines: Vec::new(),
            newest: 0,
        };
        Self {
            dir: dir.to_path_buf(),
            sessions: pasts.iter().map(session).collect(),
            tally: Tally::default(),
        }
    }

    /// Looks at every session once.
    pub(super) fn look_at_all(&mut self) {
        for session in &mut self.sessions {
            self.tally.looks += 1;
            // What was promised before the look begins.
            session.state = session.state.max(session.past.flushed());
            match Look::take(&self.dir, &session.past.key) {
                Ok(look) => session.judge(look, &mut self.tally),
                Err(half) => {
                    self.tally.moving += 1;
                    self.tally.halves += u64::from(half);
                }
            }
        }
    }

    /// When the store is closed every session is what it was told to be.
    pub(super) fn look_at_the_end(&mut self) {
        for Session { past, .. } in &self.sessions {
            let look = Look::take(&self.dir, &past.key).expect("nothing changes any more");
            let (found, newest) = (look.numbers(), past.newest().shown);
            if found.as_ref() != Ok(&newest) {
                let key = &past.key;
                let wrong = format!("{key} is {found:?} after the end, not {newest:?}");
                self.tally.tell(wrong);
            }
        }
    }
}

impl Session {
    fn judge(&mut self, mut look: Look, tally: &mut Tally) {
        if look.sidecar.as_ref().is_some_and(Vec::is_empty) {
            tally.unmade += 1;
            look.sidecar = None;
        }
        let lines = match look.numbers() {
            Ok(lines) => lines,
            Err(wrong) => return tally.tell(format!("{}: {wrong}", self.past.key)),
        };
        match self.past.explain(&lines, self.state) {
            Ok(seen) => self.note(seen, lines, tally),
            Err(wrong) => {
                let before = &self.lines;
                tally.tell(format!(
                    "{wrong}; {}; before, it read as {before:?}",
                    look.told()
                ));
            }
        }
    }

    fn note(&mut self, seen: Seen, lines: Vec<u64>, tally: &mut Tally) {
        let counter = if seen.more {
            &mut tally.more
        } else {
            &mut tally.exact
        };
        *counter += 1;
        let back = |line: &u64| *line <= self.newest && !self.lines.contains(line);
        tally.bare += u64::from(seen.more && seen.bare);
        tally.again += u64::from(seen.more && lines.iter().any(back));
        tally.parts += u64::from(seen.part);
        tally.moved += u64::from(seen.state > self.state);
        self.state = seen.state;
        self.newest = self.newest.max(lines.last().copied().unwrap_or(0));
        self.lines = lines;
    }
}

impl Tally {
    pub(super) fn judged(&self) -> u64 {
        self.exact + self.more + self.wrong
    }

    fn tell(&mut self, wrong: String) {
        self.wrong += 1;
        if self.told.len() < TOLD {
            self.told.push(wrong);
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} looks, {} judged:", self.looks, self.judged())?;
        writeln!(
            f,
            "  {} at a state, {} times a later one",
            self.exact, self.moved
        )?;
        writeln!(
            f,
            "  {} at a state with hidden lines before it; {} of them where nothing was left to \
             show, {} at lines that had been out of sight",
            self.more, self.bare, self.again
        )?;
        writeln!(
            f,
            "  {} at some of several messages of one command",
            self.parts
        )?;
        writeln!(f, "  {} at a sidecar that was being made", self.unmade)?;
        writeln!(f, "  {} wrong", self.wrong)?;
        writeln!(
            f,
            "not judged: {} while a file changed, {} of them with a sidecar that does not decode",
            self.moving, self.halves
        )?;
        self.told
            .iter()
            .try_for_each(|wrong| writeln!(f, "{wrong}"))
    }
}
