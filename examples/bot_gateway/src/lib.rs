//! The main job of a session store: a gateway that serves many chats of three
//! platforms at once and never forgets what it acknowledged.
//!
//! ```sh
//! cargo run --release --example bot_gateway
//! ```
//!
//! `inbound` brings the platforms' updates to one shape, `sessions` finds the
//! session of each as `config` says, `intake` sorts them by session, `run` drives the chats with the answers of `bot`, `ledger` keeps what
//! the store owes, `check` reopens the store and compares, `report` tells a
//! person. `acks` writes the ledger to a file, so that even a run that was
//! killed can be checked.

mod acks;
mod args;
mod bot;
mod check;
mod config;
mod inbound;
mod intake;
mod ledger;
mod progress;
mod report;
mod run;
mod sessions;
mod units;

use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use sessionlog::{Store, StoreOptions, StoreStats};

use crate::acks::{AckLog, Expected};
use crate::args::Args;
use crate::config::Config;
use crate::intake::{Chat, Intake};
use crate::progress::Progress;
use crate::report::{Person, Report};
use crate::run::{Outcome, Plan};
use crate::sessions::Sessions;

/// How long a gateway that was told to end may take to close its store.
const CLOSING: Duration = Duration::from_secs(10);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Runs what the command line asks for. The exit code is 0 if the store holds what it
/// acknowledged.
#[must_use]
pub fn run() -> ExitCode {
    let args = Args::parse();
    let done = match &args.verify_acks {
        Some(log) => verify(&args.dir, log),
        None => serve(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bot_gateway: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the gateway over the updates. `false` if the store does not hold what
/// it should.
fn serve(args: &Args) -> Result<bool> {
    let screen = Screen::beside(args.ack_log.as_deref());
    let acks = args.ack_log.as_deref().map(AckLog::open).transpose()?;
    let sessions = Sessions::new(Config::read(&args.config)?);
    let intake = read_updates(&args.updates, &sessions)?;
    refuse_foreign(&args.dir)?;
    // The process before this one may still be closing.
    let options = StoreOptions::new()
        .durability(args.durability.into())
        .open_timeout(CLOSING);
    let store = Store::open_with(&args.dir, options)?;

    let mut report = screen.report();
    report.intake(&intake, &source_name(&args.updates));
    report.policy(sessions.dimensions(), &sessions.doubts());
    report.recovery(store.recovery_report());
    screen.print(report)?;

    let busiest = intake.chats.iter().max_by_key(|chat| chat.messages.len());
    let busiest = busiest.map(|chat| chat.session.session_key.clone());
    let people = Person::of(&intake.chats);
    let plan = Plan {
        concurrency: args.concurrency as usize,
        repeat: args.repeat,
        flush_every: args.flush_every.map(Duration::from_millis),
        acks,
    };
    let turns = intake.counts.messages * args.repeat;
    let (outcome, stats) = drive(&store, intake.chats, plan, turns)?;

    let mut report = screen.report();
    report.run(&outcome, &stats, args.durability.name());
    report.status(&store.handle().status().wait()?);
    screen.print(report)?;

    store.close()?;
    let checked = check::check_run(&args.dir, &outcome)?;
    let mut report = screen.report();
    report.checked(&checked);
    report.people(&people);
    if let Some(key) = busiest {
        report.look(&args.dir, &key);
    }
    report.blank();
    screen.print(report)?;
    Ok(checked.faults.is_empty() && outcome.tally.failures.is_empty())
}

/// Drives the chats, and brings what they said to the session files.
fn drive(store: &Store, chats: Vec<Chat>, plan: Plan, turns: u64) -> Result<(Outcome, StoreStats)> {
    let handle = store.handle();
    let progress = Progress::start(turns);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()?;
    let outcome = runtime.block_on(run::drive(&handle, chats, plan, &progress));
    progress.clear();
    handle.flush().wait()?;
    let stats = handle.stats();
    Ok((outcome, stats))
}

/// Checks the store against a log of acknowledgements.
fn verify(dir: &Path, log: &Path) -> Result<bool> {
    let screen = Screen::beside(None);
    let expected = Expected::read(log).map_err(|error| format!("{}: {error}", log.display()))?;
    refuse_foreign(dir)?;
    let checked = check::check_acks(dir, &expected)?;
    let mut report = screen.report();
    report.acks(&expected);
    report.recovery(&checked.recovery);
    report.checked(&checked);
    report.blank();
    screen.print(report)?;
    Ok(checked.faults.is_empty())
}

fn read_updates(path: &Path, sessions: &Sessions) -> Result<Intake> {
    if path == Path::new("-") {
        return Ok(Intake::read(io::stdin().lock(), sessions)?);
    }
    let named = |error: io::Error| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(named)?;
    Ok(Intake::read(BufReader::new(file), sessions).map_err(named)?)
}

fn source_name(path: &Path) -> String {
    if path == Path::new("-") {
        return String::from("standard input");
    }
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// A store makes itself at home in its directory; somebody's photos are no
/// place for it.
fn refuse_foreign(dir: &Path) -> Result<()> {
    let Ok(mut entries) = dir.read_dir() else {
        return Ok(());
    };
    if entries.next().is_none() || dir.join(".sessionlog").is_dir() {
        return Ok(());
    }
    let dir = dir.display();
    Err(format!("{dir} is not empty and holds no session store; name another --dir").into())
}

/// Where the report goes.
struct Screen {
    to_stderr: bool,
    colour: bool,
}

impl Screen {
    /// Keeps out of the way of acknowledgements on the standard output.
    fn beside(ack_log: Option<&Path>) -> Self {
        let to_stderr = ack_log == Some(Path::new("-"));
        let terminal = if to_stderr {
            io::stderr().is_terminal()
        } else {
            io::stdout().is_terminal()
        };
        let colour = terminal && std::env::var_os("NO_COLOR").is_none();
        Self { to_stderr, colour }
    }

    fn report(&self) -> Report {
        Report::new(self.colour)
    }

    fn print(&self, report: Report) -> io::Result<()> {
        let text = report.into_text();
        if self.to_stderr {
            io::stderr().write_all(text.as_bytes())
        } else {
            io::stdout().write_all(text.as_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM_TELEGRAM: &str = r#"{"update_id":1,"message":{"message_id":1,"date":0,"text":"on the train",
        "from":{"id":353714237,"is_bot":false,"first_name":"Sam"},"chat":{"id":353714237,"type":"private"}}}"#;
    const FROM_SLACK: &str = r#"{"team_id":"T0AINS0N29J","type":"event_callback","event":{"type":"message","channel":"D1",
        "channel_type":"im","user":"U0J3UM5AUCW","ts":"1762156919.000200","text":"at my desk"}}"#;
    const FROM_A_STRANGER: &str = r#"{"team_id":"T0AINS0N29J","type":"event_callback","event":{"type":"message","channel":"D2",
        "channel_type":"im","user":"sam","ts":"1762156919.000300","text":"it is me"}}"#;

    #[test]
    fn two_senders_linked_across_two_platforms_share_one_conversation() {
        let updates =
            [FROM_TELEGRAM, FROM_SLACK, FROM_A_STRANGER].map(|line| line.replace('\n', ""));
        let sessions = Sessions::new(Config::checked_in());
        let intake = Intake::read(updates.join("\n").as_bytes(), &sessions).unwrap();
        assert_eq!(intake.chats.len(), 2);
        let sam = intake.chats[0].session.session_key.clone();

        let scratch = tempfile::tempdir().unwrap();
        let store = Store::open(scratch.path()).unwrap();
        let plan = Plan {
            concurrency: 2,
            repeat: 1,
            flush_every: None,
            acks: None,
        };
        let (outcome, _) = drive(&store, intake.chats, plan, 3).unwrap();
        assert_eq!(outcome.tally.failures, [""; 0]);

        let chats = store.handle();
        for name in ["telegram:353714237", "slack:T0AINS0N29J/D1"] {
            let owner = chats.resolve_session_key(name).wait().unwrap();
            assert_eq!(owner.as_deref(), Some(sam.as_str()), "{name}");
        }
        let history = chats.history("slack:T0AINS0N29J/D1").wait().unwrap();
        let said = history.iter().filter(|message| message.role() == "user");
        let said: Vec<String> = said.map(|message| message.text().into_owned()).collect();
        assert_eq!(
            said,
            ["[#1 Sam] on the train", "[#2 U0J3UM5AUCW] at my desk"]
        );
        assert_eq!(
            chats.history("slack:T0AINS0N29J/D2").wait().unwrap().len(),
            4
        );
        store.close().unwrap();
    }
}
