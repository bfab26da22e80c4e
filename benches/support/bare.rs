//! The floor: a journal loop that does nothing but group commit.
//!
//! One thread takes whatever is queued, copies it into one buffer, makes one
//! `pwrite` and one `fdatasync`, and answers. No checksums, no session files,
//! no recovery, nothing to read back.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::load::Appender;
use super::{LINE_BYTES, Outcome};

/// The file is written round and round, so that every commit overwrites blocks
/// that were written before: no allocation, no extent conversion, no size
/// change, which is what makes `fdatasync` cheapest.
pub(crate) const FILE_BYTES: usize = 64 << 20;

/// Below this many replies, sending them from the committer is cheaper than
/// starting a task that sends them.
const SMALL_BATCH: usize = 4;

/// Who wakes the producers of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Wake {
    /// One task inside the runtime sends all of them: the fair floor.
    Batched,
    /// The committer sends each one, through the runtime's injection queue.
    Naive,
}

/// What a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The line survives power loss.
    Synced,
    /// The line is in the page cache.
    Written,
}

struct Request {
    line: Vec<u8>,
    reply: oneshot::Sender<()>,
}

/// The producers' side of the loop.
pub(crate) struct Bare {
    queue: Sender<Request>,
    lines: Vec<Vec<u8>>,
    commits: Arc<AtomicUsize>,
}

impl Bare {
    /// Prepares the file in `dir` and starts the committer. The committer ends
    /// when the last producer lets go of the returned `Bare`.
    pub(crate) fn start(
        dir: &Path,
        texts: &[String],
        runtime: &Handle,
        wake: Wake,
        until: Until,
    ) -> Outcome<(Arc<Self>, JoinHandle<()>)> {
        let file = zeroed(&dir.join("bare.journal"))?;
        let (queue, requests) = crossbeam_channel::unbounded();
        let commits = Arc::new(AtomicUsize::new(0));
        let committer = Committer {
            file,
            requests,
            runtime: runtime.clone(),
            wake,
            until,
            commits: Arc::clone(&commits),
        };
        let thread = std::thread::Builder::new()
            .name("bare".into())
            .spawn(move || committer.run())?;
        let lines = texts.iter().map(|text| line(text)).collect();
        let bare = Self {
            queue,
            lines,
            commits,
        };
        Ok((Arc::new(bare), thread))
    }

    /// Commits so far.
    pub(crate) fn commits(&self) -> usize {
        self.commits.load(Ordering::Relaxed)
    }
}

impl Appender for Bare {
    async fn append(&self, _session: usize, text: usize) {
        let (reply, done) = oneshot::channel();
        let line = self.lines[text].clone();
        self.queue
            .send(Request { line, reply })
            .expect("the committer outlives its producers");
        done.await.expect("the committer answers every request");
    }
}

/// The text in the frame that the store would give it.
pub(crate) fn line(text: &str) -> Vec<u8> {
    let mut line = format!(
        "{{\"role\":\"user\",\"content\":\"{text}\",\"created_at\":\"2026-01-01T00:00:00.123456789Z\"}}\n"
    )
    .into_bytes();
    assert_eq!(line.len(), LINE_BYTES, "both contenders write equal lines");
    line.shrink_to_fit();
    line
}

/// A file of real zeros on disk: `fallocate` alone leaves unwritten extents,
/// whose conversion every first write would pay for.
pub(crate) fn zeroed(path: &Path) -> Outcome<File> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let zeros = vec![0; 1 << 20];
    for chunk in 0..FILE_BYTES / zeros.len() {
        file.write_all_at(&zeros, (chunk * zeros.len()) as u64)?;
    }
    file.sync_all()?;
    Ok(file)
}

struct Committer {
    file: File,
    requests: Receiver<Request>,
    runtime: Handle,
    wake: Wake,
    until: Until,
    commits: Arc<AtomicUsize>,
}

impl Committer {
    fn run(self) {
        let mut buffer = Vec::with_capacity(1 << 20);
        let mut position = 0;
        while let Ok(first) = self.requests.recv() {
            let mut replies = Vec::new();
            buffer.clear();
            for request in std::iter::once(first).chain(self.requests.try_iter()) {
                buffer.extend_from_slice(&request.line);
                replies.push(request.reply);
            }
            if position + buffer.len() > FILE_BYTES {
                position = 0;
            }
            write(&self.file, &buffer, position, self.until).expect("the bare journal writes");
            position += buffer.len();
            self.commits.fetch_add(1, Ordering::Relaxed);
            self.answer(replies);
        }
    }

    fn answer(&self, replies: Vec<oneshot::Sender<()>>) {
        match self.wake {
            Wake::Naive => send_all(replies),
            Wake::Batched => send_batched(&self.runtime, replies),
        }
    }
}

/// One commit of a bare loop.
pub(crate) fn write(file: &File, lines: &[u8], at: usize, until: Until) -> std::io::Result<()> {
    file.write_all_at(lines, at as u64)?;
    match until {
        Until::Synced => file.sync_data(),
        Until::Written => Ok(()),
    }
}

/// Answers from a thread outside the runtime: there, each wake-up goes through
/// the runtime's injection queue; inside, it does not.
pub(crate) fn send_batched(runtime: &Handle, replies: Vec<oneshot::Sender<()>>) {
    if replies.len() < SMALL_BATCH {
        send_all(replies);
    } else {
        runtime.spawn(async move { send_all(replies) });
    }
}

/// A producer never drops its receiver, so an unsent reply is a bug of the
/// harness that shows as a hang; there is nothing to report here.
pub(crate) fn send_all(replies: Vec<oneshot::Sender<()>>) {
    for reply in replies {
        reply.send(()).ok();
    }
}
