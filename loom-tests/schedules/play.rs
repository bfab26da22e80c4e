//! One schedule: a store, its callers, and what they must find.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sessionlog::testing::disk_model::{Fault, Image, MemoryStorage, Repeat, SyncFault};
use sessionlog::testing::running::{Make, Running, passes, read_only, reset, rest};
use sessionlog::{Appended, Durability, Message, StoreHandle, StoreOptions};
use shuttle::future::block_on;
use shuttle::thread::{JoinHandle, spawn};

use crate::callers::{Caller, Ids, SHARED, after_crash, aliases_after_crash, check_shared, known};
use crate::dice::Dice;
use crate::kimi::Kimi;
use crate::picoclaw::{SOURCE, Writer, texts};
use crate::states::{States, Texts};
use crate::trouble::{Kind, Trouble};

/// Sessions that PicoClaw writes, and kimi-cli; two of each have one file name.
const PICOCLAW: [&str; 2] = ["chat:1", "chat_1"];
const KIMI: [&str; 2] = ["kimi:1", "kimi_1"];

/// Sessions that get aliases.
const NAMED: [&str; 2] = ["named-1", "named-2"];

/// The kept catalog.
const CATALOG: &str = "/sessions/.sessionlog/catalog";

/// Half seconds that an idle store has until its files are complete.
const PATIENCE: usize = 50;

pub(crate) fn play(seed: u64) {
    let mut dice = Dice::new(seed);
    let kind = match dice.below(8) {
        0 => Kind::Full,
        1 => Kind::Failing,
        _ => Kind::None,
    };
    let durable = !dice.once_in(3);
    // Buffered records are synced, and a full disk is tried again, after some time.
    // Nothing else may need any.
    reset(kind == Kind::Full || !durable || dice.once_in(3));
    let roomy = dice.once_in(2);
    let make = Make {
        mailbox: if roomy { 64 } else { 1 },
        small_limits: dice.once_in(2),
        few_files: dice.once_in(2),
        budget: dice.once_in(2).then_some(1 << 15),
    };
    let options = options(&mut dice, durable);
    let storage = MemoryStorage::new();
    let store = Running::open(Arc::new(storage.clone()), &options, make).expect("opens");
    block_on(store.handle.add_message(SOURCE, "user", SOURCE)).expect("is accepted");
    match kind {
        Kind::None => {}
        // The lock's file has the number of this process.
        Kind::Full => {
            let digits = std::process::id().to_string().len();
            storage.capacity((64 << 10) + (dice.below(64 << 10) + digits) as u64);
        }
        Kind::Failing => {
            let step = storage.steps() + dice.below(200) as u64;
            // Else a failed sync of the whole file system would take what the journal has
            // written meanwhile, and the journal's next sync not report it. Linux does.
            storage.on_sync_failure(SyncFault::ReportedFailedButLanded);
            let repeat = [Repeat::Once, Repeat::Forever][dice.below(2)];
            storage.fail_at(step, Fault::Eio, repeat);
        }
    }
    let sessions: Vec<_> = PICOCLAW
        .iter()
        .chain(&KIMI)
        .map(|key| (String::from(*key), Arc::new(States::default())))
        .collect();
    let closing = Arc::new(AtomicBool::new(false));
    let trouble = Trouble {
        kind,
        storage: storage.clone(),
        closing: closing.clone(),
    };
    let caller = Caller {
        handle: store.handle.clone(),
        control: store.control(),
        sessions: sessions.clone(),
        named: NAMED.map(|key| (key, Arc::default())).to_vec(),
        ids: Arc::default(),
        durable,
        trouble: trouble.clone(),
        dice: dice.clone(),
    };
    let mut threads = writers(&caller, &sessions, &dice, durable, roomy);
    let shared = Arc::new(Mutex::new(Vec::new()));
    threads.extend(sharers(&caller, &shared, &dice));
    threads.extend(others(&caller, &dice));
    let listener = (dice.once_in(2)).then(|| {
        let caller = caller.clone();
        spawn(move || caller.listen())
    });
    let follower = (dice.once_in(2)).then(|| {
        let caller = caller.clone();
        spawn(move || caller.follow())
    });
    let early = dice.once_in(4);
    if !early {
        threads.drain(..).for_each(joined);
        if passes() && kind == Kind::None {
            check_idle(&storage, &sessions);
        }
    }
    closing.store(true, Ordering::Relaxed);
    let closed = store.close();
    threads.drain(..).for_each(joined);
    follower.into_iter().for_each(joined);
    let heard = listener.and_then(|thread| thread.join().expect("did not panic"));
    if let Err(error) = closed {
        trouble.excuses(&error, "who closes");
    } else if kind == Kind::None {
        let dump = storage.dump();
        let journal = dump.keys().filter(|name| name.contains("/journal/"));
        assert_eq!(journal.count(), 0, "closed and left a journal");
    }
    let image = [Image::AllLost, Image::AllKept][dice.below(2)];
    let end = End {
        storage: storage.image(image),
        kind,
        durable,
    };
    end.check(&sessions, &shared, heard);
    end.check_aliases(&caller.named);
    if dice.once_in(4) {
        end.check_ids(&caller.ids, &options, make);
        end.check_recovery(&sessions, &options, make);
    }
}

fn options(dice: &mut Dice, durable: bool) -> StoreOptions {
    let largest = if dice.once_in(2) { 4352 } else { 1 << 14 };
    let mut options = StoreOptions::new()
        .journal_segments(largest, largest)
        .auto_compact(!dice.once_in(4))
        .sync_in_poll(dice.once_in(2));
    if !durable {
        options = options.durability(Durability::Buffered);
    }
    if dice.once_in(2) {
        options = options.checkpoint_every(Duration::from_millis(200));
    }
    options
}

fn writers(
    caller: &Caller,
    sessions: &[(String, Arc<States>)],
    dice: &Dice,
    durable: bool,
    roomy: bool,
) -> Vec<JoinHandle<()>> {
    let mut threads = Vec::new();
    for (number, (key, states)) in sessions.iter().enumerate() {
        let mut dice = dice.of(number as u64);
        let (times, absent) = (2 + dice.below(6), dice.once_in(4));
        if absent {
            continue;
        }
        let (handle, trouble) = (caller.handle.clone(), caller.trouble.clone());
        let session = (key.as_str(), states.clone());
        threads.push(if number < PICOCLAW.len() {
            let mut writer = Writer::new(handle, session, dice, trouble);
            (writer.mixed, writer.roomy) = (!durable, roomy);
            spawn(move || writer.write(times))
        } else {
            let mut kimi = Kimi::new(handle, session, dice, trouble);
            (kimi.durable, kimi.roomy) = (durable, roomy);
            spawn(move || kimi.write(times))
        });
    }
    threads
}

/// What each of them had accepted.
type SharedState = Arc<Mutex<Vec<(&'static str, Texts)>>>;

fn sharers(caller: &Caller, shared: &SharedState, dice: &Dice) -> Vec<JoinHandle<()>> {
    let mut dice = dice.of(10);
    let mut threads = Vec::new();
    for name in ["x", "y"] {
        let (caller, shared, times) = (caller.clone(), shared.clone(), dice.below(5));
        threads.push(spawn(move || {
            let accepted = caller.share(name, times);
            shared
                .lock()
                .expect("is not poisoned")
                .push((name, accepted));
        }));
    }
    threads
}

fn others(caller: &Caller, dice: &Dice) -> Vec<JoinHandle<()>> {
    let mut threads = Vec::new();
    let mut others = dice.of(20);
    let mut add = |body: fn(Caller, usize)| {
        let mut caller = caller.clone();
        caller.dice = dice.of(30 + threads.len() as u64);
        let times = others.below(5);
        threads.push(spawn(move || body(caller, times)));
    };
    add(Caller::read);
    add(Caller::tidy);
    add(|caller, times| caller.name(0, times.min(2)));
    add(|caller, times| caller.name(1, times.min(2)));
    add(|caller, times| caller.forget(times / 2));
    threads
}

fn joined(thread: JoinHandle<()>) {
    thread.join().expect("did not panic");
}

/// An idle store lies on disk complete: its files say everything without the journal.
fn check_idle(storage: &MemoryStorage, sessions: &[(String, Arc<States>)]) {
    let complete = || {
        let image = storage.image(Image::AllLost);
        let segments = image.dump().into_keys();
        for name in segments.filter(|name| name.contains("/journal/")) {
            image.remove_foreign(format!("/{name}")).expect("is there");
        }
        sessions.iter().all(|(key, states)| {
            let (seen, _) = states.mark();
            states.knows(seen, &after_crash(image.clone(), key))
        })
    };
    for _ in 0..PATIENCE {
        if complete() {
            return;
        }
        rest(Duration::from_millis(500));
    }
    panic!("idle, and its files lack something");
}

/// All sessions, each with aliases, summary, visible lines and numbers of backups.
fn listed(handle: &StoreHandle) -> Vec<String> {
    let keys = block_on(handle.list_sessions()).expect("is readable");
    let exact = handle.exact_keys();
    let all = keys.into_iter().map(|key| {
        let meta = block_on(exact.session_meta(&key)).expect("is readable");
        let backups = block_on(exact.list_backups(&key)).expect("is readable");
        let numbers: Vec<u64> = backups.iter().map(|backup| backup.number).collect();
        let (aliases, summary) = (meta.aliases, meta.summary);
        let visible = meta.count - meta.skip;
        format!("{key}: {visible} lines, {summary:?}, {aliases:?}, backups {numbers:?}")
    });
    all.collect()
}

/// What the files hold once nothing runs.
struct End {
    storage: MemoryStorage,
    kind: Kind,
    /// Whether everything that was answered is on the disk.
    durable: bool,
}

impl End {
    /// Whether all that was answered is there.
    fn is_exact(&self) -> bool {
        self.kind == Kind::None || self.kind == Kind::Full && self.durable
    }

    /// It is what everybody was told.
    fn check(&self, sessions: &[(String, Arc<States>)], shared: &SharedState, heard: Option<u64>) {
        let exact = self.is_exact();
        for (key, states) in sessions {
            let (seen, kept) = states.mark();
            let from = if exact { seen } else { kept };
            states.check_lost(from, &self.left(key));
        }
        let left = self.left(SHARED);
        for (name, accepted) in &*shared.lock().expect("is not poisoned") {
            if exact {
                check_shared(&left, name, accepted);
            } else if self.durable {
                let mut left = left.iter();
                let found = accepted.iter().all(|text| left.any(|line| line == text));
                assert!(found, "{accepted:?} accepted, not all there");
            }
        }
        let told = heard.is_none_or(|lines| lines == left.len() as u64);
        assert!(
            told || self.kind != Kind::None,
            "told of {heard:?} lines of {}",
            left.len()
        );
    }

    fn check_aliases(&self, named: &[(&'static str, Arc<States>)]) {
        for (key, states) in named {
            let (seen, kept) = states.mark();
            let from = if self.is_exact() { seen } else { kept };
            let left = aliases_after_crash(self.storage.image(Image::AllKept), key);
            states.check_lost(from, &left);
        }
    }

    /// A message that was taken before a power loss is a duplicate after it.
    fn check_ids(&self, ids: &Ids, options: &StoreOptions, make: Make) {
        let Some((disk, taken)) = known(&ids.lost).take().filter(|_| self.durable) else {
            return;
        };
        let store = Running::open(Arc::new(disk), options, make).expect("opens after a crash");
        for id in taken {
            let again = store
                .handle
                .append_once(SHARED, &id, Message::user("again"));
            let again = block_on(again).expect("is accepted");
            assert!(matches!(again, Appended::Duplicate(_)), "{id}: {again:?}");
        }
        store.close().expect("closes in order");
    }

    /// A writer that opens the store again finds the sessions that a reader does, and takes nothing
    /// for damage. The next writer finds them too: by the kept catalog, and by the directory.
    fn check_recovery(
        &self,
        sessions: &[(String, Arc<States>)],
        options: &StoreOptions,
        make: Make,
    ) {
        let disk = self.storage.image(Image::AllKept);
        let open = || Running::open(Arc::new(disk.clone()), options, make).expect("opens again");
        let reader = read_only(Arc::new(self.storage.image(Image::AllKept)));
        let seen = listed(&reader.expect("opens after a crash"));
        let store = open();
        for key in sessions.iter().map(|(key, _)| key.as_str()).chain([SHARED]) {
            let found = block_on(store.handle.history(key)).expect("is readable");
            assert_eq!(texts(&found), self.left(key), "{key}");
        }
        assert_eq!(listed(&store.handle), seen);
        store.close().expect("closes in order");
        let names: Vec<String> = disk.dump().into_keys().collect();
        let aside = names.iter().find(|name| name.contains("/quarantine/"));
        assert_eq!(aside, None, "taken for damage");
        for is_kept in [true, false] {
            if !is_kept {
                // It need not be there: a catalog with damaged files is not kept.
                let _ = disk.remove_foreign(CATALOG);
            }
            let again = open();
            assert_eq!(listed(&again.handle), seen, "catalog kept: {is_kept}");
            again.close().expect("closes in order");
        }
    }

    fn left(&self, key: &str) -> Texts {
        after_crash(self.storage.image(Image::AllKept), key)
    }
}
