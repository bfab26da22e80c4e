//! W5: opening a store of many sessions after a clean close, each time in a
//! process of its own, so that time and memory are those of a fresh one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use super::{Figures, Player, Stage, Task, Workload, close, with};
use crate::contender::{Contender, Kind, Setup, Texts, alias_of, key_of};
use crate::meter::resident_mb;
use crate::support::Outcome;
use crate::support::bare::Until;

pub(crate) struct Opens {
    pub(crate) sessions: usize,
}

/// A million sessions of ten would take longer to write than to measure.
const MANY_SESSIONS: usize = 1_000_000;

/// Sessions that are filled before the next are begun.
const FILLED_AT_ONCE: usize = 10_000;

impl Opens {
    fn messages(&self) -> usize {
        if self.sessions < MANY_SESSIONS { 10 } else { 1 }
    }
}

impl Workload for Opens {
    fn name(&self) -> &'static str {
        "w5"
    }

    fn title(&self) -> String {
        format!(
            "open {} sessions of {}, list all keys, resolve an alias (ops/s: both of open and list)",
            self.sessions,
            self.messages()
        )
    }

    fn cells(&self) -> Vec<String> {
        vec![self.sessions.to_string()]
    }

    fn admits_floors(&self) -> bool {
        false
    }

    /// Opening changes nothing: what the first round writes serves all of them.
    fn wants_fresh_directory(&self) -> bool {
        false
    }

    fn prepare<C: Contender>(&self, stage: Stage) -> Outcome<Box<dyn Player>> {
        if stage.round == 0 {
            self.write::<C>(&stage)?;
        }
        Ok(Box::new(Turns {
            kind: stage.kind,
            dir: stage.dir,
            sessions: self.sessions,
        }))
    }
}

impl Opens {
    fn write<C: Contender>(&self, stage: &Stage) -> Outcome<()> {
        let contender: Arc<C> = stage.open(Until::Synced, self.sessions)?;
        for first in (0..self.sessions).step_by(FILLED_AT_ONCE) {
            let some = first..self.sessions.min(first + FILLED_AT_ONCE);
            contender.fill(some.clone(), self.messages())?;
            contender.alias(some)?;
        }
        close(contender)
    }
}

struct Turns {
    kind: Kind,
    dir: PathBuf,
    sessions: usize,
}

impl Player for Turns {
    fn measure(&mut self, _cell: usize) -> Outcome<Figures> {
        let output = Command::new(std::env::current_exe()?)
            .args(["--contenders", self.kind.name(), "--sessions"])
            .arg(self.sessions.to_string())
            .arg("--open")
            .arg(&self.dir)
            .output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let opening: Opening = serde_json::from_slice(&output.stdout)?;
        Ok(opening.figures())
    }

    fn finish(self: Box<Self>) -> Outcome<()> {
        Ok(())
    }
}

/// What the other process says of itself.
#[derive(Serialize, Deserialize)]
pub(crate) struct Opening {
    open_ms: f64,
    list_ms: f64,
    resolve_micros: f64,
    resident_mb: f64,
}

impl Opening {
    fn figures(&self) -> Figures {
        let both_ms = self.open_ms + self.list_ms;
        Figures {
            ops: 1e3 / both_ms,
            more: [
                ("open ms", self.open_ms),
                ("list ms", self.list_ms),
                ("open + list ms", both_ms),
                ("resolve us", self.resolve_micros),
                ("resident MB", self.resident_mb),
            ]
            .into(),
            ..Figures::default()
        }
    }
}

/// The other process's whole work.
pub(crate) fn open_once(kind: Kind, dir: &Path, sessions: usize) -> Outcome<Opening> {
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let runtime = Arc::new(runtime);
    let dir = dir.to_owned();
    with(
        kind,
        Open {
            runtime,
            dir,
            sessions,
        },
    )
}

struct Open {
    runtime: Arc<Runtime>,
    dir: PathBuf,
    sessions: usize,
}

impl Task for Open {
    type Output = Opening;

    fn run<C: Contender>(self) -> Outcome<Opening> {
        let setup = Setup {
            dir: self.dir,
            until: Until::Synced,
            sessions: 0,
            runtime: self.runtime.handle().clone(),
            texts: Arc::new(Texts::new(1)),
        };
        let (contender, open_ms) = timed(|| C::open(&setup))?;
        let (keys, list_ms) = timed(|| contender.keys())?;
        let session = self.sessions / 2;
        let (key, resolve_ms) = timed(|| contender.resolve(&alias_of(session)))?;
        let resident_mb = resident_mb()?;
        if keys.len() != self.sessions || key != Some(key_of(session)) {
            return Err(format!("{} keys, the alias leads to {key:?}", keys.len()).into());
        }
        contender.close()?;
        Ok(Opening {
            open_ms,
            list_ms,
            resolve_micros: resolve_ms * 1e3,
            resident_mb,
        })
    }
}

/// What the work took, in milliseconds.
fn timed<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<(T, f64)> {
    let started = Instant::now();
    let result = work()?;
    Ok((result, started.elapsed().as_secs_f64() * 1e3))
}
