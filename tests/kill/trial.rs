//! One store, killed again and again.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Result;
use crate::gateway::{Ended, Gateway, Moment};
use crate::moments::{Pace, Random};
use crate::tally::Tally;

/// How long an undisturbed run should last: long enough for flushes, segments
/// that fill, and compactions, and short enough for a hundred of them.
const RUN: Duration = Duration::from_millis(500);

/// How often the updates are repeated at least, and to find out how long that
/// takes.
const FEW: u32 = 1;

/// A kill may come this much later than the run is expected to end: without,
/// the last moments of a run that takes a little longer would be safe.
const OVERRUN: f64 = 1.03;

/// What a run takes on this machine.
pub(crate) struct Pacing {
    repeat: u32,
    run: Pace,
    closing: Pace,
    recovery: Pace,
}

impl Pacing {
    /// Finds how often the updates must be repeated for a run to last.
    pub(crate) fn measure(gateway: &Gateway, scratch: &Path) -> Result<Self> {
        let mut trial = Trial::begin(gateway, &scratch.join("pace"))?;
        let took = trial.serve(FEW, "durable")?.took;
        let wanted = u128::from(FEW) * RUN.as_micros() / took.as_micros().max(1);
        let repeat = wanted.clamp(u128::from(FEW), 200) as u32;
        let run = trial.serve(repeat, "durable")?;
        let recovery = trial.gateway.run(&trial.recovery())?.took;
        trial.verify()?;
        trial.remove()?;
        Ok(Self {
            repeat,
            run: Pace::guessed(run.took),
            closing: Pace::guessed(run.closing.unwrap_or_default()),
            recovery: Pace::guessed(recovery * 2),
        })
    }
}

impl fmt::Display for Pacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { repeat, run, .. } = self;
        write!(f, "{:.2?} with --repeat {repeat}", run.at(1.0))
    }
}

/// A store, and the log of what it acknowledged.
pub(crate) struct Trial<'a> {
    gateway: &'a Gateway,
    home: PathBuf,
    acknowledged: u64,
}

impl<'a> Trial<'a> {
    pub(crate) fn begin(gateway: &'a Gateway, home: &Path) -> Result<Self> {
        fs::create_dir(home)?;
        let trial = Self {
            gateway,
            home: home.to_owned(),
            acknowledged: 0,
        };
        // Present even if the first kill comes before the gateway makes it.
        fs::write(trial.log(), "")?;
        fs::write(trial.no_updates(), "")?;
        Ok(trial)
    }

    /// Runs, kills, recovers, verifies.
    pub(crate) fn round(
        &mut self,
        round: usize,
        moment: f64,
        random: &mut Random,
        pacing: &mut Pacing,
        tally: &mut Tally,
    ) -> Result<()> {
        let durability = if round % 4 == 3 {
            "buffered"
        } else {
            "durable"
        };
        let mut arguments = self.serving(pacing.repeat, durability);
        if round % 2 == 1 {
            arguments.extend(["--flush-every".into(), "20".into()]);
        }
        let kill = if round % 6 == 5 {
            Moment::Worked(pacing.closing.at(moment))
        } else {
            Moment::Started(pacing.run.at(moment * OVERRUN))
        };
        let ended = self.gateway.kill(kill, &arguments)?;
        if !ended.killed() {
            self.require_success(&ended)?;
            pacing.run.took(ended.took);
            pacing.closing.took(ended.closing.unwrap_or_default());
        }
        tally.note(&ended);
        if round % 3 == 2 {
            self.kill_recoveries(1 + random.below(3), random, pacing, tally)?;
        }
        self.verify()
            .map_err(|error| format!("round {round} ({durability}, {kill:.1?}): {error}").into())
    }

    /// Opens the store with nothing else to do, and kills that.
    fn kill_recoveries(
        &self,
        times: usize,
        random: &mut Random,
        pacing: &mut Pacing,
        tally: &mut Tally,
    ) -> Result<()> {
        for _ in 0..times {
            let delay = pacing.recovery.at(random.fraction());
            let ended = self
                .gateway
                .kill(Moment::Started(delay), &self.recovery())?;
            if !ended.killed() {
                self.require_success(&ended)?;
                pacing.recovery.took(ended.took);
                break;
            }
            tally.recoveries += usize::from(ended.stdout.is_empty());
        }
        Ok(())
    }

    /// Recovers the store and compares it with the log, however long ago a
    /// message was acknowledged.
    fn verify(&mut self) -> Result<()> {
        let ended = self.gateway.run(&self.verifying(&self.log()))?;
        self.require_success(&ended)?;
        self.acknowledged = acknowledged(&ended.stdout)
            .ok_or_else(|| format!("no count of commands in\n{}", ended.stdout))?;
        Ok(())
    }

    /// The same check must fail for a store that lost something, and for one
    /// that brought something back; else all that passed it says nothing.
    pub(crate) fn check_the_check(&self) -> Result<()> {
        let log = fs::read_to_string(self.log())?;
        let last = log.lines().rev().find_map(|line| line.strip_prefix("ok\t"));
        let key = last.and_then(|line| line.split('\t').next());
        let key = key.ok_or("no command was acknowledged")?;
        for (tampering, fault) in [
            ("append\t0123456789abcdef", "acknowledged messages missing"),
            (
                "shrink\t0000000000000000,0",
                "messages there that must not be",
            ),
        ] {
            let path = self.home.join("tampered");
            let mut tampered = fs::File::create(&path)?;
            let numbered = format!("{key}\t999999999");
            write!(
                tampered,
                "{log}try\t{numbered}\t{tampering}\nok\t{numbered}\n"
            )?;
            let ended = self.gateway.run(&self.verifying(&path))?;
            if ended.succeeded() || !ended.stdout.contains(fault) {
                return Err(format!("the check passes over: {fault}\n{}", ended.stdout).into());
            }
        }
        Ok(())
    }

    /// Commands acknowledged by this store, as of the last check.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    pub(crate) fn remove(self) -> Result<()> {
        Ok(fs::remove_dir_all(self.home)?)
    }

    fn serve(&self, repeat: u32, durability: &str) -> Result<Ended> {
        let ended = self.gateway.run(&self.serving(repeat, durability))?;
        self.require_success(&ended)?;
        Ok(ended)
    }

    fn require_success(&self, ended: &Ended) -> Result<()> {
        if ended.succeeded() {
            return Ok(());
        }
        let complaints = self.gateway.complaints();
        Err(format!("the gateway failed\n{}{complaints}", ended.stdout).into())
    }

    fn serving(&self, repeat: u32, durability: &str) -> Vec<OsString> {
        let mut arguments = self.on_store();
        arguments.extend(["--ack-log".into(), self.log().into()]);
        arguments.extend(["--repeat".into(), repeat.to_string().into()]);
        arguments.extend(["--durability".into(), durability.into()]);
        arguments
    }

    fn recovery(&self) -> Vec<OsString> {
        let mut arguments = self.on_store();
        arguments.extend(["--updates".into(), self.no_updates().into()]);
        arguments
    }

    fn verifying(&self, log: &Path) -> Vec<OsString> {
        let mut arguments = self.on_store();
        arguments.extend(["--verify-acks".into(), log.into()]);
        arguments
    }

    fn on_store(&self) -> Vec<OsString> {
        vec!["--dir".into(), self.home.join("sessions").into()]
    }

    fn log(&self) -> PathBuf {
        self.home.join("acks")
    }

    fn no_updates(&self) -> PathBuf {
        self.home.join("no-updates.jsonl")
    }
}

/// The count in the verifier's report: `log  12,345  commands acknowledged in …`.
fn acknowledged(report: &str) -> Option<u64> {
    let row = report
        .lines()
        .find(|line| line.contains(" commands acknowledged "))?;
    let number = row.split_whitespace().nth(1)?;
    number.replace(',', "").parse().ok()
}
