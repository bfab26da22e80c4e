//! Proof that the tests see what they are for. Each patch in this folder is a fault; its header
//! names the promise that it breaks and the suite that must fail.
//!
//! ```console
//! cargo faults                    all of them
//! cargo faults loom checkpoint    those whose file name or header contains a word
//! cargo faults --list
//! ```
//!
//! A fault counts as seen if its suite passes without it and fails by a claim with it: hanging,
//! overflowing a stack or not compiling is no claim. `depth: full` in a header stands for a
//! suite that sees the fault only in `.ci/full`. A patch that does not apply fails the run.
//!
//! Faults that change functions only are built together, and the environment chooses one: a
//! build takes minutes, most faults are seen within seconds. The others are built one by one.

mod combine;
mod programs;
mod tree;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use combine::{CHOICE, Combined};
use programs::{Outcome, Programs, Suite};
use tree::Tree;

/// The roots of the crates that faults are put into.
const ROOTS: [&str; 3] = [
    "src/lib.rs",
    "crates/wal/src/lib.rs",
    "crates/core/src/lib.rs",
];

#[derive(Debug)]
struct Fault {
    number: usize,
    name: String,
    promise: String,
    suite: Suite,
    patch: PathBuf,
    /// The text that words of the command line are searched in.
    header: String,
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let mut faults = faults();
    let is_list = words.first().is_some_and(|word| word == "--list");
    if !is_list && !words.is_empty() {
        faults.retain(|fault| {
            let has = |word: &String| fault.name.contains(word) || fault.header.contains(word);
            words.iter().any(has)
        });
    }
    if is_list {
        for fault in &faults {
            println!("{:<60} {:<40} {}", fault.name, fault.suite, fault.promise);
        }
        return ExitCode::SUCCESS;
    }
    let wrong = try_all(&faults);
    println!(
        "{} of {} faults seen",
        faults.len() - wrong.len(),
        faults.len()
    );
    for line in &wrong {
        eprintln!("wrong: {line}");
    }
    if faults.is_empty() || !wrong.is_empty() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The faults of this folder, by name.
fn faults() -> Vec<Fault> {
    let folder = tree::repository().join("tests/faults");
    let mut patches: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("can be read").path())
        .filter(|path| path.extension().is_some_and(|end| end == "patch"))
        .collect();
    patches.sort();
    let fault = |(number, patch): (usize, PathBuf)| {
        let text = std::fs::read_to_string(&patch).expect("is text");
        let header = text.split("\n\n").next().unwrap_or_default().to_owned();
        let field = |name: &str| {
            let mut lines = header.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        let suite = field("seen by").expect("names a suite");
        Fault {
            number,
            name: patch
                .file_stem()
                .expect("has a name")
                .to_string_lossy()
                .into_owned(),
            promise: field("promise").expect("names a promise").to_owned(),
            suite: Suite::new(suite, field("depth") == Some("full")),
            header,
            patch,
        }
    };
    patches.into_iter().enumerate().map(fault).collect()
}

/// Tries all, and returns what is wrong.
fn try_all(faults: &[Fault]) -> Vec<String> {
    let tree = Tree::copied();
    let mut wrong = Vec::new();
    let mut files: BTreeMap<String, Combined> = BTreeMap::new();
    let mut together = BTreeSet::new();
    let mut alone = Vec::new();
    for fault in faults {
        match tree.patched(&fault.patch) {
            Err(why) => wrong.push(format!("{}: no longer applies: {why}", fault.name)),
            Ok(changed) if combined(&mut files, &tree, fault.number, &changed) => {
                together.insert(fault.number);
            }
            Ok(_) => alone.push(fault),
        }
    }
    let suites: Vec<_> = faults.iter().map(|fault| &fault.suite).collect();
    let programs = loop {
        for (name, file) in &files {
            tree.write(name, &file.text());
        }
        for name in ROOTS {
            tree.restore(name);
            let root = files
                .get(name)
                .map_or_else(|| tree.read(name), Combined::text);
            tree.write(name, &(root + CHOICE));
        }
        match Programs::build(&tree, &suites) {
            Ok(programs) => break programs,
            Err(failed) => {
                let unfit = set_apart(&mut files, &failed.lines);
                assert!(
                    !unfit.is_empty(),
                    "no fault, but does not build:\n{}",
                    failed.output
                );
                together.retain(|number| !unfit.contains(number));
                alone.extend(faults.iter().filter(|fault| unfit.contains(&fault.number)));
            }
        }
    };
    let unsound = programs.unsound(&suites);
    let chosen = faults
        .iter()
        .filter(|fault| together.contains(&fault.number));
    let (apart, tried): (Vec<_>, Vec<_>) = chosen.partition(|fault| fault.suite.is_alone());
    let try_one = |fault: &&Fault| {
        judge(fault, &unsound, || {
            programs.run(&fault.suite, Some(fault.number))
        })
    };
    wrong.extend(programs::side_by_side(&tried, try_one));
    wrong.extend(apart.iter().filter_map(try_one));
    for name in files.keys().map(String::as_str).chain(ROOTS) {
        tree.restore(name);
    }
    for fault in alone {
        let Ok(changed) = tree.patched(&fault.patch) else {
            continue;
        };
        for (name, text) in &changed {
            tree.write(name, text);
        }
        let tried = judge(fault, &unsound, || {
            match Programs::build(&tree, &[&fault.suite]) {
                Ok(programs) => programs.run(&fault.suite, None),
                Err(_) => Outcome::Silent("does not build".to_owned()),
            }
        });
        wrong.extend(tried);
        for name in changed.keys() {
            tree.restore(name);
        }
    }
    wrong
}

/// Puts a fault beside the others. False if it has to be built by itself.
fn combined(
    files: &mut BTreeMap<String, Combined>,
    tree: &Tree,
    fault: usize,
    changed: &HashMap<String, String>,
) -> bool {
    let fits = changed.iter().all(|(name, text)| {
        // Elsewhere nothing is chosen.
        let is_chosen = ROOTS.iter().any(|root| {
            let sources = root.strip_suffix("lib.rs");
            sources.is_some_and(|sources| name.starts_with(sources))
        });
        if !is_chosen {
            return false;
        }
        let file = files
            .entry(name.clone())
            .or_insert_with(|| Combined::new(tree.read(name)).expect("is Rust"));
        file.add(fault, text)
    });
    if !fits {
        for file in files.values_mut() {
            file.remove(fault);
        }
    }
    fits
}

/// Takes the faults out that do not compile beside others.
fn set_apart(
    files: &mut BTreeMap<String, Combined>,
    lines: &BTreeMap<String, BTreeSet<usize>>,
) -> BTreeSet<usize> {
    let at = |(name, lines): (&String, &BTreeSet<usize>)| Some(files.get(name)?.at_lines(lines));
    let unfit: BTreeSet<_> = lines.iter().filter_map(at).flatten().collect();
    for file in files.values_mut() {
        for &fault in &unfit {
            file.remove(fault);
        }
    }
    unfit
}

/// Tries one, says how it went, and returns what is wrong.
fn judge(
    fault: &Fault,
    unsound: &HashMap<String, String>,
    run: impl FnOnce() -> Outcome,
) -> Option<String> {
    let (name, suite) = (&fault.name, &fault.suite);
    let begun = Instant::now();
    let wrong = match unsound.get(&suite.to_string()) {
        Some(why) => Some(format!("{name}: {suite} without a fault: {why}")),
        None => match run() {
            Outcome::Failed(claim) => {
                let seconds = begun.elapsed().as_secs();
                println!("seen   {name} by {suite} ({seconds} s): {claim}");
                None
            }
            Outcome::Passed => Some(format!("{name}: {suite}: passed")),
            Outcome::Silent(why) => Some(format!("{name}: {suite}: {why}")),
        },
    };
    if let Some(wrong) = &wrong {
        println!("WRONG  {wrong}");
    }
    wrong
}
