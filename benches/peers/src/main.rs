//! sessionlog beside other embedded stores, on the same disk in the same run.
//!
//! `README.md` says how each contender is driven, what the workloads measure,
//! and what cannot be compared.
//!
//! `cargo run --profile bench -p sessionlog-peers -- --quick`
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
mod program;
mod report;
mod rounds;
#[path = "../../support/mod.rs"]
mod support;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

use bars::{Verdict, judge};
use contender::Texts;
use meter::sync_micros;
use options::Options;
use program::play;
use report::{Report, SyncTime};
use rounds::Rounds;
use support::Outcome;
use support::machine::{Machine, raise_open_files};
use support::scratch::Scratch;
use workloads::open::open_once;

const TEXTS: usize = 64;

fn main() -> Outcome<ExitCode> {
    let options = Options::parse().complete();
    raise_open_files()?;
    if let Some(dir) = &options.open {
        let opening = open_once(options.contenders[0], dir, options.sessions)?;
        println!("{}", serde_json::to_string(&opening)?);
        return Ok(ExitCode::SUCCESS);
    }
    let parent = options.dir.clone().map_or_else(usual_parent, Ok)?;
    let scratch = Scratch::new(Some(&parent), "peers", options.keep)?;
    let report = measure(&options, &scratch)?;
    print!("{report}");
    report.save(&options)?;
    let missed = report.verdicts.iter().any(Verdict::is_missed);
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
    let mut program = Vec::new();
    for round in 0..rounds.count {
        for name in &options.workloads {
            program.push(play(*name, options, &rounds, round)?);
        }
    }
    let sync = SyncTime {
        start_micros,
        end_micros: sync_micros(scratch.root())?,
    };
    let mut report = Report::of(machine, options.clone(), sync, program);
    report.verdicts = judge(&report);
    Ok(report)
}
