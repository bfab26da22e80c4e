//! A log of what was asked of the store and what it acknowledged, kept outside
//! it, so that a run which was killed at any moment can be checked exactly.
//!
//! One line per event, fields separated by tabs, handed to the operating system
//! before the run goes on:
//!
//! ```text
//! run  <process>                         a process began to write
//! have <key> <summary> <message,…>       what the chat showed at its first turn
//! try  <key> <number> append <message,…>   a command is about to be submitted
//! try  <key> <number> shrink <summary>,<keep_last>
//! ok   <key> <number>                    it was acknowledged
//! no   <key> <number>                    it was refused: it took no effect
//! ```
//!
//! Messages and summaries are 64-bit fingerprints in hexadecimal (`-` for no
//! messages). Every message carries its turn's number, so no two of a chat are
//! alike and one that comes back after a truncation is seen. Each chat has one
//! command under way at a time: after a kill the last `try` of a chat may lack
//! its answer, and then the chat must show the state before it or the state
//! after it, and nothing else. A line cut short by the kill counts as not
//! written; the next run on the same log removes it.
//!
//! The log survives the death of the process, not a power loss.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::ledger::{ChatState, Effect, Fingerprint, compare};

/// Where acknowledgements are written.
pub(crate) struct AckLog {
    out: Mutex<Box<dyn Write + Send>>,
}

impl AckLog {
    /// Appends to `path`; `-` is the standard output.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let out: Box<dyn Write + Send> = if path == Path::new("-") {
            Box::new(io::stdout())
        } else {
            Box::new(open_at_line_start(path)?)
        };
        let log = Self {
            out: Mutex::new(out),
        };
        log.line(&format!("run\t{}", std::process::id()))?;
        Ok(log)
    }

    pub(crate) fn have(&self, key: &str, state: &ChatState) -> io::Result<()> {
        let messages = list(&state.visible);
        self.line(&format!("have\t{key}\t{:016x}\t{messages}", state.summary))
    }

    pub(crate) fn submitting(&self, key: &str, number: u64, effect: &Effect) -> io::Result<()> {
        let what = match effect {
            Effect::Append(messages) => format!("append\t{}", list(messages)),
            Effect::Shrink(summary, keep) => format!("shrink\t{summary:016x},{keep}"),
        };
        self.line(&format!("try\t{key}\t{number}\t{what}"))
    }

    pub(crate) fn acknowledged(&self, key: &str, number: u64) -> io::Result<()> {
        self.line(&format!("ok\t{key}\t{number}"))
    }

    pub(crate) fn refused(&self, key: &str, number: u64) -> io::Result<()> {
        self.line(&format!("no\t{key}\t{number}"))
    }

    fn line(&self, text: &str) -> io::Result<()> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(format!("{text}\n").as_bytes())?;
        out.flush()
    }
}

/// A torn last line is cut off: glued to the next one it would spoil both.
fn open_at_line_start(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new()
        .create(true)
        .read(true)
        .append(true)
        .open(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let whole = bytes
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    file.set_len(whole as u64)?;
    Ok(file)
}

fn list(messages: &[Fingerprint]) -> String {
    if messages.is_empty() {
        return String::from("-");
    }
    let hex: Vec<String> = messages
        .iter()
        .map(|print| format!("{print:016x}"))
        .collect();
    hex.join(",")
}

/// What a log says every chat must show.
#[derive(Default)]
pub(crate) struct Expected {
    chats: BTreeMap<String, Account>,
    pub(crate) runs: u64,
    pub(crate) acknowledged: u64,
    /// What went wrong between two runs, or in the log itself.
    pub(crate) faults: Vec<String>,
}

/// A chat as far as the log has been read.
struct Account {
    /// The states it may be in, all of them rightly.
    possible: Vec<ChatState>,
    under_way: Option<(u64, Effect)>,
}

impl Expected {
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let bytes = std::fs::read(path)?;
        let mut expected = Self::default();
        for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let Some(line) = line.strip_suffix(b"\n") else {
                break;
            };
            let text = String::from_utf8_lossy(line);
            if expected.take(&text).is_none() {
                expected
                    .faults
                    .push(format!("line {} of the log is not understood", index + 1));
            }
        }
        Ok(expected)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.chats.keys().map(String::as_str)
    }

    pub(crate) fn in_doubt(&self) -> usize {
        self.chats
            .values()
            .filter(|account| account.under_way.is_some())
            .count()
    }

    /// Whether `actual` is what the chat must show now.
    pub(crate) fn check(&self, key: &str, actual: &ChatState) -> Result<(), String> {
        self.chats
            .get(key)
            .map_or(Ok(()), |account| compare(actual, &account.allowed()))
    }

    /// `None` for a line that does not follow the format.
    fn take(&mut self, line: &str) -> Option<()> {
        let fields: Vec<&str> = line.split('\t').collect();
        match *fields.as_slice() {
            ["run", _] => self.runs += 1,
            ["have", key, summary, visible] => {
                let state = ChatState {
                    visible: parse_list(visible)?,
                    summary: hex(summary)?,
                };
                self.begin(key, state);
            }
            ["try", key, number, verb, argument] => {
                let effect = match verb {
                    "append" => Effect::Append(parse_list(argument)?),
                    "shrink" => {
                        let (summary, keep) = argument.split_once(',')?;
                        Effect::Shrink(hex(summary)?, keep.parse().ok()?)
                    }
                    _ => return None,
                };
                let account = self.chats.get_mut(key)?;
                account.under_way = Some((number.parse().ok()?, effect));
            }
            ["ok", key, number] => {
                let effect = self.answered(key, number)?;
                self.acknowledged += 1;
                for state in &mut self.chats.get_mut(key)?.possible {
                    state.apply(&effect);
                }
            }
            ["no", key, number] => drop(self.answered(key, number)?),
            _ => return None,
        }
        Some(())
    }

    /// A run found the chat in `state`, which settles what was in doubt.
    fn begin(&mut self, key: &str, state: ChatState) {
        if let Some(account) = self.chats.get(key)
            && let Err(fault) = compare(&state, &account.allowed())
        {
            self.faults
                .push(format!("{key}: when run {} began, {fault}", self.runs));
        }
        let account = Account {
            possible: vec![state],
            under_way: None,
        };
        self.chats.insert(key.to_owned(), account);
    }

    fn answered(&mut self, key: &str, number: &str) -> Option<Effect> {
        let (submitted, effect) = self.chats.get_mut(key)?.under_way.take()?;
        (number.parse() == Ok(submitted)).then_some(effect)
    }
}

impl Account {
    fn allowed(&self) -> Vec<ChatState> {
        let mut states = self.possible.clone();
        if let Some((_, effect)) = &self.under_way {
            states.extend(self.possible.iter().map(|state| state.after(effect)));
        }
        states
    }
}

fn parse_list(text: &str) -> Option<Vec<Fingerprint>> {
    if text == "-" {
        return Some(Vec::new());
    }
    text.split(',').map(hex).collect()
}

fn hex(text: &str) -> Option<Fingerprint> {
    Fingerprint::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(visible: &[u64]) -> ChatState {
        ChatState {
            visible: visible.to_vec(),
            summary: 0,
        }
    }

    /// A log in which 1, 2 and 3 were acknowledged and a truncation to 1 was not.
    fn log_of_a_killed_run() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acks");
        let log = AckLog::open(&path).unwrap();
        log.have("k", &state(&[])).unwrap();
        log.submitting("k", 1, &Effect::Append(vec![1, 2, 3]))
            .unwrap();
        log.acknowledged("k", 1).unwrap();
        log.submitting("k", 2, &Effect::Append(vec![9])).unwrap();
        log.refused("k", 2).unwrap();
        let shrink = Effect::Shrink(state(&[]).summary, 1);
        log.submitting("k", 3, &shrink).unwrap();
        (dir, path)
    }

    #[test]
    fn an_unanswered_command_leaves_exactly_two_states() {
        let (_dir, path) = log_of_a_killed_run();
        let expected = Expected::read(&path).unwrap();
        assert_eq!((expected.acknowledged, expected.in_doubt()), (1, 1));
        assert_eq!(expected.check("k", &state(&[1, 2, 3])), Ok(()));
        assert_eq!(expected.check("k", &state(&[3])), Ok(()));
        for wrong in [&[1, 2][..], &[2, 3], &[], &[1, 2, 3, 9]] {
            assert!(expected.check("k", &state(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_acknowledged_truncation_is_final() {
        let (_dir, path) = log_of_a_killed_run();
        AckLog::open(&path).unwrap().acknowledged("k", 3).unwrap();
        let expected = Expected::read(&path).unwrap();
        assert_eq!(expected.check("k", &state(&[3])), Ok(()));
        assert!(expected.check("k", &state(&[1, 2, 3])).is_err());
    }

    #[test]
    fn a_torn_line_counts_as_not_written_and_spoils_no_other() {
        let (_dir, path) = log_of_a_killed_run();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"ok\tk").unwrap();
        assert_eq!(Expected::read(&path).unwrap().in_doubt(), 1);
        let log = AckLog::open(&path).unwrap();
        log.have("k", &state(&[3])).unwrap();
        let expected = Expected::read(&path).unwrap();
        assert_eq!((expected.runs, expected.faults.len()), (2, 0));
        assert_eq!(expected.check("k", &state(&[3])), Ok(()));
    }

    #[test]
    fn a_loss_that_a_later_run_found_is_reported() {
        let (_dir, path) = log_of_a_killed_run();
        AckLog::open(&path)
            .unwrap()
            .have("k", &state(&[1]))
            .unwrap();
        assert_eq!(Expected::read(&path).unwrap().faults.len(), 1);
    }
}
