//! sessionlog beside other embedded stores, on the same disk in the same run.
//!
//! `README.md` says how each contender is driven, what the workloads measure,
//! and what cannot be compared.
//!
//! `cargo run --release -p sessionlog-peers -- --quick`
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench is a program, not the engine"
)]

mod bars;
mod contender;
mod contenders;
mod engines;
mod meter;
mod options;
mod report;
mod rounds;
#[path = "../../support/mod.rs"]
mod support;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

use bars::judge;
use contender::Texts;
use meter::sync_micros;
use options::{Name, Options};
use report::{Report, SyncTime};
use rounds::{Rounds, Turn};
use support::Outcome;
use support::bare::Until;
use support::machine::{Machine, raise_open_files};
use support::scratch::Scratch;
use workloads::append::Appends;
use workloads::fresh::Fresh;
use workloads::mixed::Mixed;
use workloads::open::{Opens, open_once};
use workloads::read::Reads;
use workloads::soak::soak;
use workloads::truncate::Truncations;

const TEXTS: usize = 64;

/// How large W6's sessions are, before and after.
const TRUNCATED_FROM: usize = 1000;
const TRUNCATED_TO: usize = 100;

/// Messages of each of W4's sessions.
const MIXED_MESSAGES: usize = 100;

fn main() -> Outcome<ExitCode> {
    let options = Options::parse().complete();
    raise_open_files()?;
    if let Some(dir) = &options.open {
        let opening = open_once(options.contenders[0], dir, options.sessions)?;
        println!("{}", serde_json::to_string(&opening)?);
        return Ok(ExitCode::SUCCESS);
    }
    let parent = options.dir.clone().map_or_else(usual_parent, Ok)?;
    let scratch = Scratch::new(Some(&parent), "peers", false)?;
    let report = measure(&options, &scratch)?;
    print!("{report}");
    report.save(&options)?;
    let missed = report.verdicts.iter().any(|verdict| verdict.is_missed());
    if options.check && missed {
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Where Cargo keeps temporary files: beside the directory of the executable.
/// It tells only tests and benchmarks, and this is neither.
fn usual_parent() -> Outcome<PathBuf> {
    let executable = std::env::current_exe()?;
    let target = executable.ancestors().nth(2);
    Ok(target.map_or_else(std::env::temp_dir, |target| target.join("tmp")))
}

fn measure(options: &Options, scratch: &Scratch) -> Outcome<Report> {
    let machine = Machine::describe(scratch.root());
    let rounds = Rounds {
        contenders: &options.contenders,
        count: options.rounds,
        scratch,
        runtime: Arc::new(tokio::runtime::Builder::new_multi_thread().build()?),
        texts: Arc::new(Texts::new(TEXTS)),
    };
    let start_micros = sync_micros(scratch.root())?;
    let mut turns = Vec::new();
    let mut titles = Vec::new();
    for round in 0..rounds.count {
        for name in &options.workloads {
            let (title, mut played) = play(*name, options, &rounds, round)?;
            turns.append(&mut played);
            if round == 0 {
                titles.extend(title);
            }
        }
    }
    let sync = SyncTime {
        start_micros,
        end_micros: sync_micros(scratch.root())?,
    };
    let mut report = Report::of(machine, options.clone(), sync, titles, turns);
    report.verdicts = judge(&report);
    Ok(report)
}

/// One round of one workload, and the workload's title. The soak has no rounds.
fn play(
    name: Name,
    options: &Options,
    rounds: &Rounds<'_>,
    round: usize,
) -> Outcome<(Option<(&'static str, String)>, Vec<Turn>)> {
    let sizes = options.sizes();
    let (warm_up, window) = (options.warm_up(), options.window());
    let appends = |until| Appends {
        until,
        producers: options.producers.clone(),
        sessions: sizes.append_sessions,
        warm_up,
        window,
    };
    match name {
        Name::W1 => titled(&appends(Until::Synced), rounds, round),
        Name::W2 => titled(&appends(Until::Written), rounds, round),
        Name::W3 => {
            let lengths = sizes.history_lengths.clone();
            titled(&Reads { lengths, window }, rounds, round)
        }
        Name::W4 => {
            let mixed = Mixed {
                sessions: sizes.mixed_sessions,
                messages: MIXED_MESSAGES,
                warm_up,
                window,
            };
            titled(&mixed, rounds, round)
        }
        Name::W5 => {
            let sessions = options.sessions;
            titled(&Opens { sessions }, rounds, round)
        }
        Name::W6 => {
            let truncations = Truncations {
                sessions: sizes.truncated_sessions,
                messages: TRUNCATED_FROM,
                keep: TRUNCATED_TO,
                warm_up,
                window,
            };
            titled(&truncations, rounds, round)
        }
        Name::W7 => {
            let sessions = sizes.new_sessions;
            titled(&Fresh { sessions }, rounds, round)
        }
        Name::W8 => {
            soak(options, rounds, round)?;
            Ok((None, Vec::new()))
        }
    }
}

fn titled(
    workload: &impl workloads::Workload,
    rounds: &Rounds<'_>,
    round: usize,
) -> Outcome<(Option<(&'static str, String)>, Vec<Turn>)> {
    let turns = rounds.play(workload, round)?;
    Ok((Some((workload.name(), workload.title())), turns))
}
