//! The rules of `DEVIATIONS.md`: where our promise is stronger.

use std::cell::Cell;

/// One rule. The discriminant is its number in `DEVIATIONS.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    LongLines = 1,
    Ownership = 2,
    FreshLine = 3,
    KeptLines = 4,
    KimiRecords = 5,
    BrokenSidecar = 6,
    Keys = 7,
    NothingCreated = 8,
    OneLine = 9,
    RevertTarget = 10,
    LastPrompt = 11,
    Estimate = 12,
}

/// How many there are.
const RULES: u8 = 12;

/// Which rules a case made use of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Applied(Cell<u16>);

impl Applied {
    /// Notes that a rule decided something.
    pub(crate) fn note(&self, rule: Rule) {
        self.0.set(self.0.get() | 1 << rule as u16);
    }

    /// The numbers of the rules noted.
    pub(crate) fn numbers(&self) -> Vec<usize> {
        (1..16).filter(|n| self.0.get() & 1 << n != 0).collect()
    }
}

/// The text that explains the rules.
pub(crate) const DEVIATIONS: &str = include_str!("../golden/DEVIATIONS.md");

/// Whether the text explains every rule, and no others.
pub(crate) fn documented() -> Result<(), String> {
    let headings = DEVIATIONS
        .lines()
        .filter_map(|line| line.strip_prefix("## "));
    let numbers: Vec<u8> = headings
        .filter_map(|line| line.split('.').next()?.parse().ok())
        .collect();
    if numbers.iter().copied().eq(1..=RULES) {
        Ok(())
    } else {
        Err(format!(
            "DEVIATIONS.md explains rules {numbers:?}, the test has 1 to {RULES}"
        ))
    }
}
