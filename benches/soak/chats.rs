//! The mix: threads that each do everything to chats of their own, and know what
//! these must hold.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use sessionlog::{BackupLimits, Message, StoreHandle};

use crate::support::load::SplitMix64;
use crate::support::{Outcome, text};
use crate::table::Table;

/// Bytes of a line that are not its text.
const FRAME: usize = 75;

/// Between two commands of a thread: the machine is to have time for compactions.
const PAUSE: Duration = Duration::from_micros(200);

/// Messages of the large chat, and their size.
const LARGE: usize = 64 << 10;

/// The large chat is truncated once it holds so many.
const MANY: usize = 1500;

pub(crate) struct Chats {
    all: Vec<Arc<Mutex<Chat>>>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Outcome<()>>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    failed: AtomicBool,
    reads: AtomicU64,
    wrong: AtomicU64,
}

/// One chat, and what it must hold: the lengths of its lines.
struct Chat {
    key: String,
    live: VecDeque<usize>,
    /// The first texts of messages tell them apart.
    next: u64,
    first: u64,
    /// A checkpoint to go back to, and how many messages stood before it.
    mark: Option<(i64, usize)>,
    large: bool,
}

/// What the threads saw.
pub(crate) struct Tally {
    reads: u64,
    wrong: u64,
}

impl Tally {
    pub(crate) fn report(&self, table: &mut Table) {
        table.say("reads", self.reads as f64);
        table.at_most("reads that showed something else", self.wrong as f64, 0.0);
    }
}

/// Starts the threads.
pub(crate) fn start(threads: usize, chats: usize, handle: &StoreHandle) -> Chats {
    let all: Vec<_> = (0..chats.max(threads))
        .map(|n| Arc::new(Mutex::new(Chat::new(n))))
        .collect();
    let shared = Arc::<Shared>::default();
    let threads = (0..threads).map(|thread| {
        let own: Vec<_> = all.iter().skip(thread).step_by(threads).cloned().collect();
        let (handle, shared) = (handle.clone(), shared.clone());
        std::thread::spawn(move || {
            let done = carry_on(&own, &handle, &shared, thread as u64);
            if done.is_err() {
                shared.failed.store(true, Ordering::Relaxed);
            }
            done
        })
    });
    let threads = threads.collect();
    Chats {
        all,
        shared,
        threads,
    }
}

impl Chats {
    /// Whether a thread gave up.
    pub(crate) fn failed(&self) -> bool {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// The files of some chats that nobody commands at this moment, the large one
    /// among them, and how many live bytes they have.
    pub(crate) fn sizes(&self, dir: &Path, turn: usize) -> Vec<(PathBuf, usize)> {
        let some = self.all.iter().skip(1 + turn % 16).step_by(16);
        let chosen = self.all.iter().take(1).chain(some);
        let sizes = chosen.filter_map(|chat| {
            let chat = chat.try_lock().ok()?;
            let path = dir.join(format!("{}.jsonl", chat.key.replace(':', "_")));
            Some((path, chat.live.iter().sum()))
        });
        sizes.collect()
    }

    /// Ends the threads.
    ///
    /// # Errors
    /// What a thread met.
    pub(crate) fn stop(self) -> Outcome<Tally> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok(Tally {
            reads: self.shared.reads.load(Ordering::Relaxed),
            wrong: self.shared.wrong.load(Ordering::Relaxed),
        })
    }
}

fn carry_on(
    own: &[Arc<Mutex<Chat>>],
    handle: &StoreHandle,
    shared: &Shared,
    seed: u64,
) -> Outcome<()> {
    let mut random = SplitMix64::new(seed);
    while !shared.stop.load(Ordering::Relaxed) {
        // Every fourth command is the first chat's, of one thread the large one.
        let chosen = match random.below(4) {
            0 => 0,
            _ => random.below(own.len()),
        };
        let mut chat = own[chosen].lock().map_err(|_| "a thread panicked")?;
        chat.act(handle, shared, &mut random)?;
        drop(chat);
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

impl Chat {
    fn new(n: usize) -> Self {
        Self {
            key: format!("soak:{n}"),
            live: VecDeque::new(),
            next: 0,
            first: 0,
            mark: None,
            large: n == 0,
        }
    }

    fn act(
        &mut self,
        handle: &StoreHandle,
        shared: &Shared,
        random: &mut SplitMix64,
    ) -> Outcome<()> {
        if self.large && self.live.len() > MANY {
            return self.truncate(handle, MANY / 8 + random.below(MANY / 2));
        }
        match random.below(100) {
            0..60 => self.append(handle, 1, random),
            60..70 => self.append(handle, 10, random),
            70..80 if !self.large => self.truncate(handle, 5 + random.below(40)),
            80..83 if !self.large => self.mark(handle),
            83..85 if !self.large => self.go_back(handle),
            85..86 if !self.large && random.below(4) == 0 => self.delete(handle),
            86..87 => Ok(handle.compact(&self.key).wait()?),
            87..90 => Ok(handle.set_summary(&self.key, "so far").wait()?),
            90..99 => self.check(handle, shared, 20),
            _ => self.check(handle, shared, usize::MAX),
        }
    }

    fn append(
        &mut self,
        handle: &StoreHandle,
        count: usize,
        random: &mut SplitMix64,
    ) -> Outcome<()> {
        let messages = (0..count).map(|_| {
            let length = if self.large {
                LARGE
            } else {
                20 + random.below(2000)
            };
            let said = format!("{} {}", self.next, text(length, random));
            self.next += 1;
            self.live.push_back(said.len() + FRAME);
            Message::user(said)
        });
        let messages: Vec<_> = messages.collect();
        Ok(handle.append_all(&self.key, messages).wait()?)
    }

    fn truncate(&mut self, handle: &StoreHandle, keep: usize) -> Outcome<()> {
        handle.truncate_history(&self.key, keep).wait()?;
        while self.live.len() > keep {
            self.live.pop_front();
            self.first += 1;
        }
        // What it stood at may be hidden.
        self.mark = None;
        Ok(())
    }

    fn mark(&mut self, handle: &StoreHandle) -> Outcome<()> {
        let id = handle.context(&self.key).checkpoint(false).wait()?;
        self.mark = Some((id.into(), self.live.len()));
        Ok(())
    }

    fn go_back(&mut self, handle: &StoreHandle) -> Outcome<()> {
        let Some((id, held)) = self.mark.take() else {
            return Ok(());
        };
        handle.context(&self.key).revert_to(id).wait()?;
        self.live.truncate(held);
        self.next = self.first + self.live.len() as u64;
        let limits = BackupLimits::new().count(2);
        handle.prune_backups(&self.key, limits).wait()?;
        Ok(())
    }

    fn delete(&mut self, handle: &StoreHandle) -> Outcome<()> {
        handle.delete_session(&self.key).wait()?;
        self.live.clear();
        (self.first, self.mark) = (self.next, None);
        Ok(())
    }

    /// Reads the newest messages, and compares them with what must be there.
    fn check(&self, handle: &StoreHandle, shared: &Shared, most: usize) -> Outcome<()> {
        let read = match most {
            usize::MAX => handle.history(&self.key).wait()?,
            most => handle.tail(&self.key, most).wait()?,
        };
        let shown = read.len().min(self.live.len()) as u64;
        let expected = self.next - self.live.len().min(most) as u64..self.next;
        let numbers = read.iter().map(|message| {
            let text = message.text();
            text.split(' ').next().and_then(|n| n.parse::<u64>().ok())
        });
        let right = shown == expected.end - expected.start && numbers.eq(expected.map(Some));
        shared.reads.fetch_add(1, Ordering::Relaxed);
        shared.wrong.fetch_add(u64::from(!right), Ordering::Relaxed);
        Ok(())
    }
}
