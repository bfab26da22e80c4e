//! Reopens the store and compares what it shows with what is owed.

use std::path::Path;
use std::time::{Duration, Instant};

use sessionlog::{Budget, RecoveryReport, Result, SessionQuery, Store, StoreHandle, Unpaired};

use crate::acks::Expected;
use crate::ledger::{ChatState, compare};
use crate::run::Outcome;

/// What reopening showed.
pub(crate) struct Checked {
    pub(crate) chats: u64,
    pub(crate) messages: u64,
    pub(crate) took: Duration,
    pub(crate) recovery: RecoveryReport,
    /// What is not as it must be, one line each.
    pub(crate) faults: Vec<String>,
}

/// Checks what this run was acknowledged.
pub(crate) fn check_run(dir: &Path, outcome: &Outcome) -> Result<Checked> {
    let keys: Vec<&str> = outcome.ledgers.keys().map(String::as_str).collect();
    check(dir, &keys, |key, actual| match outcome.ledgers.get(key) {
        Some(ledger) => compare(actual, &ledger.allowed()),
        None => Ok(()),
    })
}

/// Checks what a log says was acknowledged, by runs that may have been killed.
pub(crate) fn check_acks(dir: &Path, expected: &Expected) -> Result<Checked> {
    let keys: Vec<&str> = expected.keys().collect();
    let mut checked = check(dir, &keys, |key, actual| expected.check(key, actual))?;
    checked.faults.splice(0..0, expected.faults.iter().cloned());
    Ok(checked)
}

fn check(
    dir: &Path,
    keys: &[&str],
    verdict: impl Fn(&str, &ChatState) -> std::result::Result<(), String>,
) -> Result<Checked> {
    let begun = Instant::now();
    let store = Store::open(dir)?;
    let chats = store.handle();
    let mut checked = Checked {
        chats: keys.len() as u64,
        messages: 0,
        took: Duration::ZERO,
        recovery: store.recovery_report().clone(),
        faults: Vec::new(),
    };
    let listed = chats
        .sessions(SessionQuery::new().limit(usize::MAX))
        .wait()?;
    for key in keys {
        match look(&chats, key) {
            Ok(state) => {
                checked.messages += state.visible.len() as u64;
                if let Err(fault) = verdict(key, &state) {
                    checked.faults.push(format!("{key}: {fault}"));
                }
                if !state.visible.is_empty() && !listed.sessions.iter().any(|info| info.key == *key)
                {
                    checked.faults.push(format!("{key}: not listed"));
                }
            }
            Err(error) => checked.faults.push(format!("{key}: {error}")),
        }
    }
    store.close()?;
    checked.took = begun.elapsed();
    Ok(checked)
}

fn look(chats: &StoreHandle, key: &str) -> Result<ChatState> {
    // All of one moment, and no tool's result without its call.
    let whole = Budget::unlimited().unpaired(Unpaired::Error);
    let window = chats.window(key, whole).wait()?;
    Ok(ChatState::of(&window.messages, &window.summary))
}
