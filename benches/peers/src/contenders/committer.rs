//! The bare committer thread: a floor.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::contender::{Contender, Setup};
use crate::support::Outcome;
use crate::support::bare::{Bare, Wake};
use crate::support::load::Appender;

pub(crate) struct BareCommitter {
    bare: Arc<Bare>,
    thread: JoinHandle<()>,
}

impl Contender for BareCommitter {
    fn open(setup: &Setup) -> Outcome<Self> {
        let (bare, thread) = Bare::start(
            setup.dir(),
            &setup.texts.texts,
            &setup.runtime,
            Wake::Batched,
            setup.until,
        )?;
        Ok(Self { bare, thread })
    }

    async fn append(&self, session: usize, text: usize) {
        self.bare.append(session, text).await;
    }

    fn commits(&self) -> usize {
        self.bare.commits()
    }

    fn close(self) -> Outcome<()> {
        drop(self.bare);
        Ok(self.thread.join().map_err(|_| "the committer panicked")?)
    }
}
