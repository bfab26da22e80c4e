//! The golden corpora: what the reference programs did, against what we do.
//!
//! `cargo test --test golden [-- [--reference] [--explain] [FILTER]]` runs every corpus found
//! under `$SESSIONLOG_GOLDEN`, else under `tests/golden`. `FILTER` selects the
//! cases whose name contains it. `--reference` opens no store: it proves the
//! test's model of the reference against the recording. `--explain` prints every
//! check in which a rule made a difference.
//!
//! Where our promise is stronger than the reference, `golden/DEVIATIONS.md`
//! says so, and the model in `golden_suite` says what we do instead.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the corpora are files of the test, not of the store"
)]

#[path = "golden_suite/canonical.rs"]
mod canonical;
#[path = "golden_suite/case.rs"]
mod case;
#[path = "golden_suite/conversation.rs"]
mod conversation;
#[path = "golden_suite/cross.rs"]
mod cross;
#[path = "golden_suite/json.rs"]
mod json;
#[path = "golden_suite/keys.rs"]
mod keys;
#[path = "golden_suite/kimi.rs"]
mod kimi;
#[path = "golden_suite/kimi_steps.rs"]
mod kimi_steps;
#[path = "golden_suite/kimi_store.rs"]
mod kimi_store;
#[path = "golden_suite/kimi_vectors.rs"]
mod kimi_vectors;
#[path = "golden_suite/layer.rs"]
mod layer;
#[path = "golden_suite/legacy.rs"]
mod legacy;
#[path = "golden_suite/lines.rs"]
mod lines;
#[path = "golden_suite/model.rs"]
mod model;
#[path = "golden_suite/ops.rs"]
mod ops;
#[path = "golden_suite/report.rs"]
mod report;
#[path = "golden_suite/rules.rs"]
mod rules;
#[path = "golden_suite/schema.rs"]
mod schema;
#[path = "golden_suite/sessions.rs"]
mod sessions;
#[path = "golden_suite/subject.rs"]
mod subject;
#[path = "golden_suite/tree.rs"]
mod tree;
#[path = "golden_suite/writes.rs"]
mod writes;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use case::{Options, Runner};
use report::Report;

/// Every corpus there is, and who runs it; `None` is known but not covered yet.
const CORPORA: [(&str, Option<Runner>); 7] = [
    ("lines.json", Some(lines::run)),
    ("sessions", Some(sessions::run)),
    ("legacy", Some(legacy::run)),
    ("ops", Some(ops::run)),
    ("keys.json", Some(keys::run)),
    ("kimi", Some(kimi::run)),
    ("cross", Some(cross::run)),
];

/// The corpus that is compared with the recording alone.
const WITHOUT_MODEL: &str = "kimi";

/// Files that explain the corpora.
const TEXTS: [&str; 2] = ["README.md", "DEVIATIONS.md"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = Options {
        filter: arguments
            .iter()
            .find(|argument| !argument.starts_with('-'))
            .cloned(),
        reference_only: arguments.iter().any(|argument| argument == "--reference"),
        explain: arguments.iter().any(|argument| argument == "--explain"),
    };
    let root = std::env::var_os("SESSIONLOG_GOLDEN").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"),
        PathBuf::from,
    );
    let total = run_all(&root, &options);
    for (rule, checks) in (1..)
        .zip(&total.by_rule[1..])
        .filter(|(_, checks)| **checks > 0)
    {
        println!("golden: rule {rule} took part in {checks} checks");
    }
    println!(
        "golden: total {} passed, {} failed",
        total.passed, total.failed
    );
    if total.failed == 0 && total.passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run_all(root: &Path, options: &Options) -> Report {
    let mut total = Report::default();
    total.check("rules", rules::documented());
    let mut found: Vec<String> = std::fs::read_dir(root)
        .map(|entries| {
            entries
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .collect()
        })
        .unwrap_or_default();
    found.retain(|name| !TEXTS.contains(&name.as_str()));
    found.sort();
    if found.is_empty() {
        total.check(
            "corpora",
            Err(format!("no corpus under {}", root.display())),
        );
    }
    for name in found {
        if options.reference_only && name == WITHOUT_MODEL {
            println!("golden: {name} has no model of the reference");
            continue;
        }
        match CORPORA.iter().find(|(corpus, _)| *corpus == name) {
            Some((_, Some(runner))) => add(
                &mut total,
                &name,
                &run_corpus(&root.join(&name), *runner, options),
            ),
            Some((_, None)) => println!("golden: {name} not covered yet"),
            None => total.check(&name, Err("unknown corpus".into())),
        }
    }
    total
}

/// Runs one corpus. One without a single check is as good as missing.
fn run_corpus(path: &Path, runner: Runner, options: &Options) -> Report {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut report = Report {
        explain: options.explain,
        ..Report::default()
    };
    if let Err(why) = case::contained(|| runner(path, options, &mut report)) {
        report.check(&name, Err(why));
    }
    if report.passed + report.failed == 0 && options.filter.is_none() {
        report.check(&name, Err("an empty corpus".into()));
    }
    report
}

fn add(total: &mut Report, name: &str, report: &Report) {
    if report.passed + report.failed > 0 {
        println!(
            "golden: {name} {} passed, {} failed",
            report.passed, report.failed
        );
    }
    total.passed += report.passed;
    total.failed += report.failed;
    for (sum, checks) in total.by_rule.iter_mut().zip(report.by_rule) {
        *sum += checks;
    }
}
