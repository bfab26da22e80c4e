//! A file per session, each append synced: what a program does that has no
//! store, with as much grouping as separate files allow.

mod worker;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::Sender;
use parking_lot::Mutex;
use sessionlog::Message;
use tokio::sync::oneshot;

use crate::contender::{Contender, Setup, Texts, key_of};
use crate::engines::decode;
use crate::support::Outcome;
use crate::support::bare::Until;
use worker::{Request, Worker};

/// Threads that write, a session always on the same one. File systems group
/// syncs that wait at the same time.
const WORKERS: usize = 16;

/// Read from the end of a file at once: more than a tail of fifty.
const TAIL_BYTES: u64 = 32 << 10;

pub(crate) struct Files {
    shared: Arc<Shared>,
    workers: Vec<Sender<Request>>,
    threads: Vec<JoinHandle<()>>,
    texts: Arc<Texts>,
    until: Until,
}

/// The directory and its open files, one a session.
struct Shared {
    dir: PathBuf,
    open: Vec<Mutex<Option<File>>>,
    under_way: AtomicUsize,
    syncs: AtomicUsize,
}

impl Shared {
    fn path(&self, session: usize) -> PathBuf {
        let name = key_of(session).replace(':', "_");
        self.dir.join(format!("{name}.jsonl"))
    }

    /// Work with a session's file, opened at its first use; also says whether
    /// that made it.
    fn with<T>(
        &self,
        session: usize,
        work: impl FnOnce(&mut File) -> std::io::Result<T>,
    ) -> std::io::Result<(T, bool)> {
        let mut slot = self.open[session].lock();
        let mut is_new = false;
        if slot.is_none() {
            let path = self.path(session);
            is_new = !path.exists();
            let options = File::options();
            *slot = Some(
                options
                    .clone()
                    .read(true)
                    .append(true)
                    .create(true)
                    .open(path)?,
            );
        }
        let file = slot.as_mut().expect("opened above");
        Ok((work(file)?, is_new))
    }

    /// Makes new names in the directory durable.
    fn sync_dir(&self) -> std::io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        File::open(&self.dir)?.sync_all()
    }

    fn sessions(&self) -> Outcome<Vec<PathBuf>> {
        std::fs::read_dir(&self.dir)?
            .map(|entry| Ok(entry?.path()))
            .collect()
    }
}

impl Contender for Files {
    fn open(setup: &Setup) -> Outcome<Self> {
        let shared = Arc::new(Shared {
            dir: setup.dir.clone(),
            open: (0..setup.sessions).map(|_| Mutex::default()).collect(),
            under_way: AtomicUsize::new(0),
            syncs: AtomicUsize::new(0),
        });
        let mut workers = Vec::new();
        let mut threads = Vec::new();
        for number in 0..WORKERS {
            let (queue, requests) = crossbeam_channel::unbounded();
            let worker = Worker::new(Arc::clone(&shared), requests, setup.runtime.clone());
            let thread = std::thread::Builder::new()
                .name(format!("files-{number}"))
                .spawn(move || worker.run())?;
            workers.push(queue);
            threads.push(thread);
        }
        Ok(Self {
            shared,
            workers,
            threads,
            texts: Arc::clone(&setup.texts),
            until: setup.until,
        })
    }

    /// Without a sync, and where nobody else is under way, the caller writes.
    async fn append(&self, session: usize, text: usize) {
        let mut line = self.texts.line(text).to_vec();
        line.push(b'\n');
        if self.until == Until::Written {
            worker::append(&self.shared, session, &line).expect("the file takes the line");
            return;
        }
        if self.shared.under_way.fetch_add(1, Ordering::Relaxed) == 0 {
            worker::append_durably(&self.shared, session, &line).expect("the file takes the line");
            self.shared.under_way.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let (reply, done) = oneshot::channel();
        let request = Request {
            session,
            line,
            reply,
        };
        self.workers[session % WORKERS]
            .send(request)
            .expect("a worker outlives its callers");
        done.await.expect("a worker answers every request");
    }

    fn commits(&self) -> usize {
        self.shared.syncs.load(Ordering::Relaxed)
    }

    fn flush(&self) -> Outcome<()> {
        Ok(rustix::fs::syncfs(File::open(&self.shared.dir)?)?)
    }

    fn close(self) -> Outcome<()> {
        self.flush()?;
        drop(self.workers);
        for thread in self.threads {
            thread.join().map_err(|_| "a worker panicked")?;
        }
        Ok(())
    }

    fn count(&self) -> Outcome<usize> {
        self.shared
            .sessions()?
            .iter()
            .map(|path| Ok(memchr::memchr_iter(b'\n', &std::fs::read(path)?).count()))
            .sum()
    }

    fn fill(&self, sessions: Range<usize>, messages: usize) -> Outcome<()> {
        for session in sessions {
            let lines: Vec<u8> = (0..messages)
                .flat_map(|message| [self.texts.line(session + message), b"\n"])
                .flatten()
                .copied()
                .collect();
            std::fs::write(self.shared.path(session), lines)?;
        }
        self.flush()
    }

    /// The name of the file is all there is.
    fn alias(&self, _sessions: Range<usize>) -> Outcome<()> {
        Ok(())
    }

    fn history(&self, session: usize) -> Outcome<Vec<Message>> {
        let mut lines = Vec::new();
        self.shared.with(session, |file| {
            file.seek(SeekFrom::Start(0))?;
            file.read_to_end(&mut lines)
        })?;
        decode_lines(&lines).collect()
    }

    fn tail(&self, session: usize, count: usize) -> Outcome<Vec<Message>> {
        let (end, _) = self.shared.with(session, |file| last_bytes(file))?;
        let mut starts = memchr::memrchr_iter(b'\n', &end).skip(count);
        let first = starts.next().map_or(0, |line_feed| line_feed + 1);
        decode_lines(&end[first..]).collect()
    }

    fn keys(&self) -> Outcome<Vec<String>> {
        let sessions = self.shared.sessions()?;
        let keys = sessions
            .iter()
            .filter_map(|path| path.file_stem()?.to_str());
        Ok(keys.map(|name| name.replacen('_', ":", 1)).collect())
    }

    /// There are no aliases: a key leads to itself if it has a file.
    fn resolve(&self, alias: &str) -> Outcome<Option<String>> {
        let session = alias.rsplit(':').next().unwrap_or_default().parse()?;
        let exists = self.shared.path(session).exists();
        Ok(exists.then(|| key_of(session)))
    }

    fn truncate(&self, sessions: Range<usize>, keep: usize) -> Outcome<()> {
        for session in sessions {
            self.rewrite(session, keep)?;
        }
        Ok(self.shared.sync_dir()?)
    }

    /// Truncating replaced the files.
    fn reclaim(&self, _sessions: Range<usize>) -> Outcome<()> {
        Ok(())
    }
}

impl Files {
    /// A new file takes the old one's name once it is on disk.
    fn rewrite(&self, session: usize, keep: usize) -> Outcome<()> {
        let path = self.shared.path(session);
        let temporary = path.with_extension("tmp");
        let mut slot = self.shared.open[session].lock();
        let lines = std::fs::read(&path)?;
        let mut starts = memchr::memrchr_iter(b'\n', &lines).skip(keep);
        let first = starts.next().map_or(0, |line_feed| line_feed + 1);
        let file = File::create(&temporary)?;
        file.write_all_at(&lines[first..], 0)?;
        file.sync_data()?;
        std::fs::rename(&temporary, &path)?;
        *slot = None;
        Ok(())
    }
}

fn last_bytes(file: &File) -> std::io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(TAIL_BYTES);
    let mut bytes = vec![0; (length - start) as usize];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

fn decode_lines(lines: &[u8]) -> impl Iterator<Item = Outcome<Message>> {
    lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(decode)
}
