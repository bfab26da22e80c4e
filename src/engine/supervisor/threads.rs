//! The threads: a few lines each around the state machines they drive.

use std::sync::Arc;

use sessionlog_wal::sync::Mutex;
use sessionlog_wal::sync::thread::{self, JoinHandle};

use super::background::{BACKGROUND, LongJobs, run_jobs};
use super::event_loop::end;
use super::guard::Guard;
use super::machine::Machine;

/// The threads of a running store.
#[derive(Debug)]
pub(crate) struct Threads {
    handles: Vec<JoinHandle>,
}

impl Threads {
    /// Starts them all.
    ///
    /// # Errors
    /// If the system has no thread left; those already started are ended.
    pub(crate) fn start(machine: Machine) -> std::io::Result<Self> {
        let alarm = machine.alarm.clone();
        let background = machine.supervisor.background.clone();
        let mut handles = Vec::new();
        let started = Self::start_into(machine, &mut handles);
        let threads = Self { handles };
        if let Err(error) = started {
            end(&alarm, &background);
            threads.join();
            return Err(error);
        }
        Ok(threads)
    }

    fn start_into(machine: Machine, handles: &mut Vec<JoinHandle>) -> std::io::Result<()> {
        let Machine {
            worker,
            leader,
            supervisor,
            jobs,
            shared,
            alarm,
        } = machine;
        handles.push(spawn("sessionlog-files", move || worker.run())?);
        let guard = Guard::new(&alarm, "the leader's thread panicked");
        handles.push(spawn("sessionlog-leader", move || {
            leader.run();
            guard.disarm();
        })?);
        let (jobs, long) = (Arc::new(Mutex::new(jobs)), Arc::new(LongJobs::default()));
        for id in 0..BACKGROUND {
            let (jobs, long) = (jobs.clone(), long.clone());
            let (shared, alarm) = (shared.clone(), alarm.clone());
            let name = format!("sessionlog-background-{id}");
            handles.push(spawn(&name, move || {
                run_jobs(&jobs, &long, &shared, &alarm);
            })?);
        }
        handles.push(spawn("sessionlog-supervisor", move || {
            supervisor.run();
        })?);
        Ok(())
    }

    /// Waits for all of them to end.
    pub(crate) fn join(self) {
        for handle in self.handles {
            if let Err(panic) = handle.join() {
                tracing::error!(panic, "a thread of the store panicked");
            }
        }
    }
}

/// A thread of the store: nothing on it may wait for the store.
fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle> {
    thread::spawn(name, move || {
        let _serving = thread::serve();
        body();
    })
}
