//! Key-value stores and SQLite behind one batching writer.
//!
//! All of them commit one batch at a time, and a commit costs a sync whatever is
//! in it. So one thread takes everything queued, makes one commit of it and
//! answers, as [`Bare`](crate::support::bare) does; a caller that is alone
//! commits on its own thread, which saves two wake-ups.

mod ends;
mod writer;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::Sender;
use parking_lot::{Mutex, MutexGuard};
use sessionlog::Message;
use tokio::sync::oneshot;

use crate::contender::{Contender, Setup, Texts};
use crate::support::Outcome;
pub(crate) use ends::{Ends, place_key};
use writer::{Request, Writer};

/// One message on its way into an engine.
pub(crate) struct Append {
    pub(crate) session: usize,
    pub(crate) line: Vec<u8>,
}

/// The writing half of a store: one owner at a time.
pub(crate) trait Engine: Send + Sized + 'static {
    type Reader: Reader;

    /// Appends that one commit of a filling takes.
    const FILLED_AT_ONCE: usize = 4096;

    /// Sessions that one truncating commit takes: more hold up appends longer,
    /// fewer pay for more syncs.
    const TRUNCATED_AT_ONCE: usize = 20;

    fn open(setup: &Setup) -> Outcome<(Self, Self::Reader)>;

    /// Commits the batch as one, synced if appends are to be durable.
    fn commit(&mut self, batch: Vec<Append>) -> Outcome<()>;

    fn alias(&mut self, sessions: Range<usize>) -> Outcome<()>;

    /// Syncs, whatever appends are to be.
    fn flush(&mut self) -> Outcome<()>;

    /// Forgets all but the newest messages of these sessions in one durable
    /// commit.
    fn truncate(&mut self, sessions: Range<usize>, keep: usize) -> Outcome<()>;

    /// One step of giving space back, and whether it was the last. Appends may
    /// go between two steps.
    fn reclaim_step(&mut self) -> Outcome<bool>;

    fn close(self) -> Outcome<()>;
}

/// The reading half: shared by all threads, beside the writer.
pub(crate) trait Reader: Send + Sync + 'static {
    fn count(&self) -> Outcome<usize>;
    fn history(&self, session: usize) -> Outcome<Vec<Message>>;
    fn tail(&self, session: usize, count: usize) -> Outcome<Vec<Message>>;
    fn keys(&self) -> Outcome<Vec<String>>;
    fn resolve(&self, alias: &str) -> Outcome<Option<String>>;

    /// What of giving space back needs no turn of the writer.
    fn reclaim(&self) -> Outcome<()> {
        Ok(())
    }
}

/// An engine behind its queue.
pub(crate) struct Batched<E: Engine> {
    engine: Arc<Mutex<E>>,
    reader: E::Reader,
    queue: Sender<Request>,
    thread: JoinHandle<()>,
    texts: Arc<Texts>,
    /// Appends under way, on callers' threads and in the queue.
    under_way: Arc<AtomicUsize>,
    /// Appends in the writer's last commit.
    last_batch: Arc<AtomicUsize>,
    commits: Arc<AtomicUsize>,
}

impl<E: Engine> Batched<E> {
    /// Alone means: nothing is under way, and the last commit had no company
    /// either. Without the second, the first of many callers that a commit wakes
    /// would make one of its own while the others wait.
    fn is_alone(&self, others: usize) -> bool {
        others == 0 && self.last_batch.load(Ordering::Relaxed) <= 1
    }

    fn commit_here(&self, append: Append) {
        let mut engine = self.engine.lock();
        engine.commit(vec![append]).expect("the engine commits");
        drop(engine);
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    async fn queue(&self, append: Append) {
        let (reply, done) = oneshot::channel();
        self.queue
            .send(Request { append, reply })
            .expect("the writer outlives its callers");
        done.await.expect("the writer answers every request");
    }

    /// Work with the engine; afterwards whoever waits longest comes next.
    fn in_turn<T>(&self, work: impl FnOnce(&mut E) -> Outcome<T>) -> Outcome<T> {
        let mut engine = self.engine.lock();
        let result = work(&mut engine);
        MutexGuard::unlock_fair(engine);
        result
    }
}

impl<E: Engine> Contender for Batched<E> {
    fn open(setup: &Setup) -> Outcome<Self> {
        let (engine, reader) = E::open(setup)?;
        let engine = Arc::new(Mutex::new(engine));
        let (queue, requests) = crossbeam_channel::unbounded();
        let under_way = Arc::new(AtomicUsize::new(0));
        let last_batch = Arc::new(AtomicUsize::new(0));
        let commits = Arc::new(AtomicUsize::new(0));
        let writer = Writer {
            engine: Arc::clone(&engine),
            requests,
            runtime: setup.runtime.clone(),
            under_way: Arc::clone(&under_way),
            last_batch: Arc::clone(&last_batch),
            commits: Arc::clone(&commits),
        };
        let thread = std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || writer.run())?;
        Ok(Self {
            engine,
            reader,
            queue,
            thread,
            texts: Arc::clone(&setup.texts),
            under_way,
            last_batch,
            commits,
        })
    }

    async fn append(&self, session: usize, text: usize) {
        let line = self.texts.line(text).to_vec();
        let append = Append { session, line };
        let others = self.under_way.fetch_add(1, Ordering::Relaxed);
        if self.is_alone(others) {
            self.commit_here(append);
        } else {
            self.queue(append).await;
        }
    }

    fn commits(&self) -> usize {
        self.commits.load(Ordering::Relaxed)
    }

    fn flush(&self) -> Outcome<()> {
        self.in_turn(E::flush)
    }

    fn close(self) -> Outcome<()> {
        drop(self.queue);
        self.thread.join().map_err(|_| "the writer panicked")?;
        drop(self.reader);
        let engine = Arc::into_inner(self.engine).ok_or("someone still writes")?;
        engine.into_inner().close()
    }

    fn count(&self) -> Outcome<usize> {
        self.reader.count()
    }

    fn fill(&self, sessions: Range<usize>, messages: usize) -> Outcome<()> {
        let mut appends = sessions
            .flat_map(|session| (0..messages).map(move |message| (session, message)))
            .map(|(session, message)| Append {
                session,
                line: self.texts.line(session + message).to_vec(),
            });
        loop {
            let batch: Vec<_> = appends.by_ref().take(E::FILLED_AT_ONCE).collect();
            if batch.is_empty() {
                return self.flush();
            }
            self.in_turn(|engine| engine.commit(batch))?;
        }
    }

    fn alias(&self, sessions: Range<usize>) -> Outcome<()> {
        self.in_turn(|engine| engine.alias(sessions))
    }

    fn history(&self, session: usize) -> Outcome<Vec<Message>> {
        self.reader.history(session)
    }

    fn tail(&self, session: usize, count: usize) -> Outcome<Vec<Message>> {
        self.reader.tail(session, count)
    }

    fn keys(&self) -> Outcome<Vec<String>> {
        self.reader.keys()
    }

    fn resolve(&self, alias: &str) -> Outcome<Option<String>> {
        self.reader.resolve(alias)
    }

    fn truncate(&self, sessions: Range<usize>, keep: usize) -> Outcome<()> {
        for first in sessions.clone().step_by(E::TRUNCATED_AT_ONCE) {
            let some = first..sessions.end.min(first + E::TRUNCATED_AT_ONCE);
            self.in_turn(|engine| engine.truncate(some, keep))?;
        }
        Ok(())
    }

    fn reclaim(&self, _sessions: Range<usize>) -> Outcome<()> {
        while !self.in_turn(E::reclaim_step)? {}
        self.reader.reclaim()
    }
}

/// A stored line as every contender hands it out.
pub(crate) fn decode(line: &[u8]) -> Outcome<Message> {
    Ok(serde_json::from_slice(line)?)
}
