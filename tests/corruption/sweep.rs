//! Every damage to every store, on all processors.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::damage::{self, Damage};
use crate::image::{self, Store};
use crate::oracle::Verdict;
use crate::{lines, oracle};

/// What was tried.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) variants: usize,
    pub(crate) violations: Vec<String>,
}

/// How many violations are told in full.
const TOLD: usize = 12;

/// Damages every store in every way.
pub(crate) fn all(long: bool) -> Count {
    let mut stores = image::all();
    if long {
        stores.extend(image::more());
    }
    let asked = std::env::var("SESSIONLOG_CORRUPTION").ok();
    let stride = if long { 7 } else { 61 };
    let every = if long || asked.is_some() { 1 } else { 7 };
    let mut work: Vec<(&Store, Damage)> = Vec::new();
    for store in &stores {
        let all = damage::all(store, stride).into_iter().step_by(every);
        work.extend(all.map(|damage| (store, damage)));
    }
    work.retain(|(store, damage)| {
        let name = name(store, damage);
        asked.as_ref().is_none_or(|asked| name.contains(asked))
    });
    let violations = in_parallel(&work, |(store, damage)| {
        let verdict = catch_unwind(AssertUnwindSafe(|| oracle::judge(store, damage)));
        let verdict = verdict.unwrap_or_else(|_| Err("it panics".into()));
        verdict.map_err(|wrong| format!("{}: {wrong}", name(store, damage)))
    });
    let mut count = Count {
        variants: work.len(),
        violations,
    };
    if asked.is_none() {
        lines::shapes(&mut count);
    }
    count
}

fn name(store: &Store, damage: &Damage) -> String {
    let path = damage.path.trim_start_matches("sessions/");
    format!("{}/{} {path}", store.name, damage.how)
}

/// Judges every item of `work` on all processors, and returns what is wrong.
pub(crate) fn in_parallel<T: Sync>(
    work: &[T],
    judge: impl Fn(&T) -> Verdict + Sync,
) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let carry = || {
        let mut violations = Vec::new();
        while let Some(item) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
            violations.extend(judge(item).err());
        }
        violations
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let crew: Vec<_> = (0..threads).map(|_| scope.spawn(carry)).collect();
        let each = crew
            .into_iter()
            .map(|one| one.join().expect("a violation is no panic"));
        each.flatten().collect()
    })
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let violations = self.violations.len();
        write!(
            f,
            "corruption: {} variants, {violations} violations",
            self.variants
        )?;
        for violation in self.violations.iter().take(TOLD) {
            write!(f, "\n  {violation}")?;
        }
        Ok(())
    }
}
