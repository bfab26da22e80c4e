//! The bare combining leader: a floor without a thread of its own.
//!
//! Producers put their lines into one shared buffer. Whoever finds no leader
//! becomes it: takes the buffer, writes and syncs it, and wakes the others of
//! its batch. For those who came meanwhile a task leads on, so that the leader's
//! own producer does not wait for more than its own batch.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::contender::{Contender, Setup, Texts};
use crate::support::Outcome;
use crate::support::bare::{FILE_BYTES, Until, send_all, write, zeroed};

pub(crate) struct BareLeader {
    shared: Arc<Shared>,
    texts: Arc<Texts>,
}

struct Shared {
    waiting: Mutex<Waiting>,
    journal: Mutex<Journal>,
    runtime: Handle,
    commits: AtomicUsize,
}

/// What the next commit takes.
#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    replies: Vec<oneshot::Sender<()>>,
    is_led: bool,
}

struct Journal {
    file: File,
    position: usize,
    until: Until,
    /// The other buffer: the two change places at each commit.
    lines: Vec<u8>,
}

impl Contender for BareLeader {
    fn open(setup: &Setup) -> Outcome<Self> {
        let journal = Journal {
            file: zeroed(&setup.file("bare.journal"))?,
            position: 0,
            until: setup.until,
            lines: Vec::new(),
        };
        let shared = Shared {
            waiting: Mutex::default(),
            journal: Mutex::new(journal),
            runtime: setup.runtime.clone(),
            commits: AtomicUsize::new(0),
        };
        Ok(Self {
            shared: Arc::new(shared),
            texts: Arc::clone(&setup.texts),
        })
    }

    async fn append(&self, _session: usize, text: usize) {
        let Some(done) = self.enqueue(self.texts.line(text)) else {
            lead(&self.shared);
            return;
        };
        done.await.expect("a leader answers everyone in its batch");
    }

    fn commits(&self) -> usize {
        self.shared.commits.load(Ordering::Relaxed)
    }

    fn close(self) -> Outcome<()> {
        Ok(())
    }
}

impl BareLeader {
    /// Adds the line; `None` makes the caller the leader.
    fn enqueue(&self, line: &[u8]) -> Option<oneshot::Receiver<()>> {
        let mut waiting = self.shared.waiting.lock();
        waiting.lines.extend_from_slice(line);
        waiting.lines.push(b'\n');
        if waiting.is_led {
            let (reply, done) = oneshot::channel();
            waiting.replies.push(reply);
            Some(done)
        } else {
            waiting.is_led = true;
            None
        }
    }
}

/// Commits what waits, once, and sees to it that someone leads on if need be.
fn lead(shared: &Arc<Shared>) {
    let replies = commit(shared);
    let is_done = {
        let mut waiting = shared.waiting.lock();
        waiting.is_led = !waiting.lines.is_empty();
        !waiting.is_led
    };
    send_all(replies);
    if !is_done {
        let shared = Arc::clone(shared);
        let runtime = shared.runtime.clone();
        runtime.spawn(async move { lead(&shared) });
    }
}

fn commit(shared: &Shared) -> Vec<oneshot::Sender<()>> {
    let mut journal = shared.journal.lock();
    let journal = &mut *journal;
    journal.lines.clear();
    let replies = {
        let mut waiting = shared.waiting.lock();
        std::mem::swap(&mut waiting.lines, &mut journal.lines);
        std::mem::take(&mut waiting.replies)
    };
    if journal.position + journal.lines.len() > FILE_BYTES {
        journal.position = 0;
    }
    write(
        &journal.file,
        &journal.lines,
        journal.position,
        journal.until,
    )
    .expect("the bare journal writes");
    journal.position += journal.lines.len();
    shared.commits.fetch_add(1, Ordering::Relaxed);
    replies
}
