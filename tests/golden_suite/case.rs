//! One case of a corpus, and the verdict on each of its checks.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde_json::Value;

use crate::model::{Dialect, Model, Tree};
use crate::report::{Report, same};
use crate::subject::settle;

/// What a run was asked for.
pub(crate) struct Options {
    /// Only cases whose name contains this.
    pub(crate) filter: Option<String>,
    /// Opens no store: proves the model against the recording only.
    pub(crate) reference_only: bool,
    /// Prints every check in which a rule made a difference.
    pub(crate) explain: bool,
}

impl Options {
    /// Whether a case was asked for.
    pub(crate) fn selects(&self, name: &str) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| name.contains(filter.as_str()))
    }
}

/// A corpus's runner works through its files and counts.
pub(crate) type Runner = fn(&Path, &Options, &mut Report) -> Result<(), String>;

/// The model twice: as recorded, and as we promise.
#[derive(Clone)]
pub(crate) struct Models {
    pub(crate) reference: Model,
    pub(crate) ours: Model,
}

impl Models {
    pub(crate) fn new(tree: &Tree) -> Self {
        Self {
            reference: Model::new(Dialect::Reference, tree),
            ours: Model::new(Dialect::Ours, tree),
        }
    }
}

/// The four values of a check. `got` is missing where no store is opened.
pub(crate) struct Check {
    pub(crate) recorded: Value,
    pub(crate) reference: Value,
    pub(crate) ours: Value,
    pub(crate) got: Option<Value>,
}

impl Check {
    /// Holds if the model reproduces the recording, a rule explains whatever we
    /// promise beyond it, and the store does as promised.
    pub(crate) fn verdict(self, models: &Models, report: &mut Report) -> Result<(), String> {
        same(&self.recorded, &self.reference)
            .map_err(|why| format!("the model does not reproduce the recording: {why}"))?;
        let rules = models.ours.applied.numbers();
        let deviates = same(&self.reference, &self.ours);
        let expected = match &deviates {
            Ok(()) => &self.recorded,
            Err(why) if rules.is_empty() => return Err(format!("no rule explains {why}")),
            Err(_) => &self.ours,
        };
        if let Err(why) = &deviates {
            for rule in &rules {
                report.by_rule[*rule] += 1;
            }
            report.deviation = Some(format!("by rules {rules:?}: {why}"));
        }
        let Some(mut got) = self.got else {
            return Ok(());
        };
        settle(expected, &mut got);
        same(expected, &got).map_err(|why| match deviates {
            Ok(()) => why,
            Err(_) => format!("by rules {rules:?}: {why}"),
        })
    }
}

/// Runs one case. A panic fails the case, not the run.
pub(crate) fn run(
    name: &str,
    options: &Options,
    report: &mut Report,
    case: impl FnOnce(&mut Report) -> Result<(), String>,
) {
    if !options.selects(name) {
        return;
    }
    let outcome = contained(|| case(report));
    if outcome.is_err() {
        report.check(name, outcome);
    }
}

/// Turns a panic into a failure.
pub(crate) fn contained(work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!(
            "panicked: {}",
            text.or(panic.downcast_ref::<&str>().copied())
                .unwrap_or("?")
        ))
    })
}

/// Reads a JSON file.
pub(crate) fn read_json(path: &Path) -> Result<Value, String> {
    let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_slice(&bytes).map_err(|e| format!("{}: {e}", path.display()))
}
