//! A store that lives on a small volume: steady appends and truncations, and a
//! volume that others fill and then give a little back. Played on a real volume and
//! on the model of one.

use std::time::{Duration, Instant};

use sessionlog::{Error, Message, Store, StoreHandle};

/// The size of the volume.
pub(crate) const VOLUME: u64 = 64 << 20;

/// Session files hold so much, of which truncation skips some.
const SESSIONS: usize = 24 << 20;

const CHATS: usize = 48;

/// Messages of a batch, and their bytes.
const BATCH: usize = 8;
const MESSAGE: usize = 4 << 10;

/// Batches that a chat keeps.
const KEPT: usize = SESSIONS / CHATS / BATCH / MESSAGE;

/// Batches after which every chat has been truncated.
const STEADY: usize = 480;

/// What a test does to the volume beside the store.
pub(crate) trait Volume {
    /// Takes all space there is; `true` if there was any.
    fn fill(&mut self) -> bool;

    /// Gives so many bytes back.
    fn free(&mut self, bytes: u64);

    /// What the journal takes.
    fn journal(&self) -> u64;
}

/// What is known of every chat: the first batch it may show, and the next.
#[derive(Debug)]
struct Known {
    batches: [(usize, usize); CHATS],
}

/// Lives on the volume; tells how it went.
///
/// # Panics
/// If the store refuses what there is room for, or loses something.
pub(crate) fn live(open: impl Fn() -> Store, volume: &mut impl Volume) -> String {
    let store = open();
    let chats = store.handle();
    let mut known = Known {
        batches: [(0, 0); CHATS],
    };
    let mut journal = 0;
    for turn in 0..CHATS * KEPT + STEADY {
        known.append(&chats, turn % CHATS).expect("there is room");
        if turn >= CHATS * KEPT && turn.is_multiple_of(3) {
            known.truncate(&chats, turn % CHATS).expect("there is room");
        }
        if turn.is_multiple_of(16) {
            journal = volume.journal().max(journal);
        }
    }
    known.check(&chats);

    let refused = starve(&chats, volume, &mut known);
    volume.free(2 << 20);
    // The store looks again for space every now and then.
    let begun = Instant::now();
    // Each chat once: asked again and again, those that go on first would fill it.
    for chat in 0..CHATS {
        while let Err(error) = known.append_little(&chats, chat) {
            let patient = begun.elapsed() < PATIENCE;
            assert!(patient, "2 MiB are room for a few lines: {error}");
            std::thread::yield_now();
        }
    }
    let waited = begun.elapsed();
    known.check(&chats);
    store.close().expect("it closes");
    let store = open();
    known.check(&store.handle());
    store.close().expect("it closes");
    format!(
        "a journal of {journal} bytes at most; {refused} refused while full; accepted again after {waited:?}"
    )
}

/// Within which a store that has room again must go on.
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes to a volume that others fill, until that is refused.
fn starve(chats: &StoreHandle, volume: &mut impl Volume, known: &mut Known) -> usize {
    let mut refused = 0;
    for turn in 0.. {
        volume.fill();
        match known.append(chats, turn % CHATS) {
            Ok(()) => {}
            Err(Error::StorageFull { .. }) => refused += 1,
            Err(other) => panic!("a full disk is reported as {other:?}"),
        }
        assert!(turn < 10_000, "a full volume takes everything");
        if refused >= 200 {
            break;
        }
    }
    known.check(chats);
    refused
}

impl Known {
    fn append(&mut self, chats: &StoreHandle, chat: usize) -> Result<(), Error> {
        let batch = self.batches[chat].1;
        let text = format!("{batch} {}", "x".repeat(MESSAGE - 60));
        let messages = (0..BATCH).map(|_| Message::user(&text)).collect();
        chats.append_all(&key(chat), messages).wait()?;
        self.batches[chat].1 += 1;
        Ok(())
    }

    /// A batch of few bytes.
    fn append_little(&mut self, chats: &StoreHandle, chat: usize) -> Result<(), Error> {
        let text = format!("{} little", self.batches[chat].1);
        let messages = (0..BATCH).map(|_| Message::user(&text)).collect();
        chats.append_all(&key(chat), messages).wait()?;
        self.batches[chat].1 += 1;
        Ok(())
    }

    fn truncate(&mut self, chats: &StoreHandle, chat: usize) -> Result<(), Error> {
        chats.truncate_history(&key(chat), KEPT * BATCH).wait()?;
        let (first, next) = &mut self.batches[chat];
        *first = next.saturating_sub(KEPT).max(*first);
        Ok(())
    }

    /// Every chat shows what was acknowledged, and nothing else.
    fn check(&self, chats: &StoreHandle) {
        for (chat, (first, next)) in self.batches.iter().enumerate() {
            let held = chats.history(&key(chat)).wait().expect("it is read");
            let batch = |m: &Message| m.text().split(' ').next()?.parse::<usize>().ok();
            let held: Vec<_> = held.iter().filter_map(batch).collect();
            let expected = (*first..*next).flat_map(|batch| [batch; BATCH]);
            assert!(
                held.into_iter().eq(expected),
                "chat {chat} from {first} to {next}"
            );
        }
    }
}

fn key(chat: usize) -> String {
    format!("chat:{chat}")
}
