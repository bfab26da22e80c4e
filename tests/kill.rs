//! Kills the gateway at random moments and reopens its store: what it
//! acknowledged is there, what it truncated is gone.
//!
//! `cargo test --test kill` runs twenty rounds, with `SESSIONLOG_LONG=1` a hundred. A round runs the example
//! `bot_gateway`, kills it, in every third round kills the recovery as well, and
//! then has `bot_gateway --verify-acks` compare the recovered store with the log
//! of acknowledgements. Ten rounds share a store, so recoveries build on each
//! other. Every second round flushes all the time, every fourth is at
//! `--durability buffered`, every sixth is killed while the store closes.
//!
//! `SESSIONLOG_KILL_ROUNDS` is the number of rounds, `SESSIONLOG_KILL_PROFILE`
//! the profile of the gateway (default: the test's own), `SESSIONLOG_KILL_SEED`
//! repeats the choices of an earlier run, though not what the machine made of
//! them. A store that fails is kept, and its place printed.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the test runs a program from outside, where there are no seams"
)]

#[path = "kill/gateway.rs"]
mod gateway;
#[path = "kill/moments.rs"]
mod moments;
#[path = "kill/tally.rs"]
mod tally;
#[path = "kill/trial.rs"]
mod trial;

use std::collections::hash_map::RandomState;
use std::error::Error;
use std::hash::BuildHasher;
use std::process::ExitCode;
use std::str::FromStr;

use gateway::Gateway;
use moments::Random;
use tally::Tally;
use trial::{Pacing, Trial};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Rounds where nobody asks for more.
const ROUNDS: usize = 20;

/// Rounds of `SESSIONLOG_LONG=1`.
const ROUNDS_LONG: usize = 100;

/// Rounds that share a store.
const ROUNDS_PER_STORE: usize = 10;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        println!("kill: test");
        return ExitCode::SUCCESS;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    if filter.is_some_and(|filter| !"kill".contains(filter.as_str())) {
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kill: FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let long = std::env::var("SESSIONLOG_LONG").is_ok_and(|value| value != "0");
    let usual = if long { ROUNDS_LONG } else { ROUNDS };
    let rounds = setting("SESSIONLOG_KILL_ROUNDS", usual)?;
    let seed = setting(
        "SESSIONLOG_KILL_SEED",
        RandomState::new().hash_one("seed") >> 32,
    )?;
    let profile = setting("SESSIONLOG_KILL_PROFILE", own_profile())?;
    println!("kill: SESSIONLOG_KILL_SEED={seed}, {rounds} rounds, profile {profile}");

    // Where the build goes: a disk, on most machines, which a temporary
    // directory may not be.
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let gateway = Gateway::build(&profile, scratch.path().join("stderr"))?;
    let outcome = kill_all(&gateway, scratch.path(), rounds, seed);
    if outcome.is_err() {
        println!("kill: the stores are in {}", scratch.keep().display());
    }
    outcome
}

fn kill_all(gateway: &Gateway, scratch: &std::path::Path, rounds: usize, seed: u64) -> Result<()> {
    let mut random = Random::seeded(seed);
    let mut pacing = Pacing::measure(gateway, scratch)?;
    println!("kill: a run to its end: {pacing}");
    let moments = moments::spread(rounds, &mut random);
    let mut tally = Tally::default();
    for (number, share) in moments.chunks(ROUNDS_PER_STORE).enumerate() {
        let mut trial = Trial::begin(gateway, &scratch.join(format!("store-{number}")))?;
        for &moment in share {
            trial.round(tally.rounds, moment, &mut random, &mut pacing, &mut tally)?;
        }
        tally.acknowledged += trial.acknowledged();
        if tally.rounds == rounds {
            trial.check_the_check()?;
        }
        trial.remove()?;
    }
    println!("{tally}");
    tally.is_worth_its_name()
}

/// A number or a word from the environment.
fn setting<T>(name: &str, default: T) -> Result<T>
where
    T: FromStr,
    T::Err: Error + 'static,
{
    match std::env::var(name) {
        Ok(text) => Ok(text.parse().map_err(|error| format!("{name}: {error}"))?),
        Err(_) => Ok(default),
    }
}

/// The profile this test was built with, by where cargo put it. An example of
/// the `dev` profile would take five times as long for the same work.
fn own_profile() -> String {
    let test = std::env::current_exe().unwrap_or_default();
    let directory = test.ancestors().nth(2).and_then(|path| path.file_name());
    match directory.and_then(|name| name.to_str()) {
        None | Some("debug") => String::from("test"),
        Some(other) => other.to_owned(),
    }
}
