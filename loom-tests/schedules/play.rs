//! One schedule: a store, its callers, and what they must find.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sessionlog::testing::disk_model::{Fault, Image, MemoryStorage, Repeat};
use sessionlog::testing::running::{Make, Running, reset};
use sessionlog::{Durability, StoreOptions};
use shuttle::future::block_on;
use shuttle::thread::{JoinHandle, spawn};

use crate::callers::{Caller, SHARED, after_crash, check_shared};
use crate::dice::Dice;
use crate::kimi::Kimi;
use crate::picoclaw::{SOURCE, Trouble, Writer};
use crate::states::{States, Texts};

/// Sessions that PicoClaw writes, and kimi-cli; two of each have one file name.
const PICOCLAW: [&str; 2] = ["chat:1", "chat_1"];
const KIMI: [&str; 2] = ["kimi:1", "kimi_1"];

pub(crate) fn play(seed: u64) {
    let mut dice = Dice::new(seed);
    let trouble = match dice.below(8) {
        0 => Trouble::Full,
        1 => Trouble::Failing,
        _ => Trouble::None,
    };
    let durable = !dice.once_in(3);
    // Buffered records are synced, and a full disk is tried again, after some time.
    // Nothing else may need any.
    reset(trouble == Trouble::Full || !durable || dice.once_in(2));
    let roomy = dice.once_in(2);
    let make = Make {
        workers: 2 + dice.below(3),
        mailbox: if roomy { 64 } else { 1 },
        small_limits: dice.once_in(2),
    };
    let options = options(&mut dice, durable);
    let storage = MemoryStorage::new();
    let store = Running::open(Arc::new(storage.clone()), &options, make).expect("opens");
    block_on(store.handle.add_message(SOURCE, "user", SOURCE)).expect("is accepted");
    match trouble {
        Trouble::None => {}
        Trouble::Full => storage.capacity((64 << 10) + dice.below(64 << 10) as u64),
        Trouble::Failing => {
            let step = storage.steps() + dice.below(200) as u64;
            let repeat = [Repeat::Once, Repeat::Forever][dice.below(2)];
            storage.fail_at(step, Fault::Eio, repeat);
        }
    }
    let sessions: Vec<_> = PICOCLAW
        .iter()
        .chain(&KIMI)
        .map(|key| (String::from(*key), Arc::new(States::default())))
        .collect();
    let caller = Caller {
        handle: store.handle.clone(),
        control: store.control(),
        storage: storage.clone(),
        sessions: sessions.clone(),
        trouble,
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
    let early = dice.once_in(4);
    if !early {
        threads.drain(..).for_each(joined);
    }
    let closed = store.close();
    threads.drain(..).for_each(joined);
    let heard = listener.and_then(|thread| thread.join().expect("did not panic"));
    if trouble == Trouble::None {
        closed.expect("closes in order");
        let dump = storage.dump();
        let journal = dump.keys().filter(|name| name.contains("/journal/"));
        assert_eq!(journal.count(), 0, "closed and left a journal");
    }
    check_end(&storage, trouble, &sessions, &shared, heard);
}

fn options(dice: &mut Dice, durable: bool) -> StoreOptions {
    let largest = if dice.once_in(2) { 4352 } else { 1 << 14 };
    let mut options = StoreOptions::new()
        .journal_segments(largest, largest)
        .auto_compact(!dice.once_in(4))
        .max_open_files([8, 256][dice.below(2)]);
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
        let (handle, trouble, states) = (caller.handle.clone(), caller.trouble, states.clone());
        threads.push(if number < PICOCLAW.len() {
            let mut writer = Writer::new(handle, key, states, dice);
            (writer.trouble, writer.mixed, writer.roomy) = (trouble, !durable, roomy);
            spawn(move || writer.write(times))
        } else {
            let mut kimi = Kimi::new(handle, key, states, dice);
            (kimi.trouble, kimi.durable) = (trouble, durable);
            spawn(move || kimi.write(times))
        });
    }
    threads
}

/// What each of them had accepted.
type Shared = Arc<Mutex<Vec<(&'static str, Texts)>>>;

fn sharers(caller: &Caller, shared: &Shared, dice: &Dice) -> Vec<JoinHandle<()>> {
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
    add(|caller, times| caller.name("named-1", times.min(2)));
    add(|caller, times| caller.name("named-2", times.min(2)));
    threads
}

fn joined(thread: JoinHandle<()>) {
    thread.join().expect("did not panic");
}

/// What the files hold once nothing runs is what everybody was told.
fn check_end(
    storage: &MemoryStorage,
    trouble: Trouble,
    sessions: &[(String, Arc<States>)],
    shared: &Shared,
    heard: Option<u64>,
) {
    for (key, states) in sessions {
        let (seen, kept) = states.mark();
        let from = if trouble == Trouble::None { seen } else { kept };
        let left = after_crash(storage.image(Image::AllLost), key);
        states.check(from, &left, "who opens it again");
    }
    let left = after_crash(storage.image(Image::AllLost), SHARED);
    if trouble == Trouble::None {
        for (name, accepted) in &*shared.lock().expect("is not poisoned") {
            check_shared(&left, name, accepted);
        }
        let told = heard.is_none_or(|lines| lines == left.len() as u64);
        assert!(told, "told of {heard:?} lines of {}", left.len());
    }
}
