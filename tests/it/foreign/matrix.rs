//! Every last act of ours, a crash at every call of it, and everything that another
//! program may do to the files then: no line is lost, doubled or back.
//!
//! `SESSIONLOG_MATRIX="truncate/12/AllLost/add"` plays one case alone and prints what was
//! there; `SESSIONLOG_LONG=1` tries twelve times as many: every second deed after every crash,
//! with four images, of which all have their turn.

mod judge;
mod others;
mod ours;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::Sim;
use sessionlog::{Result, StoreOptions};

use crate::support::is_long;

use self::judge::{After, check};
use self::others::{Deed, deeds};
use self::ours::{Known, Script, crashed, scripts, span};

/// A case: a script, the call before which the power is cut, and what that leaves.
type Crash<'a> = (&'a Script, u64, Image);

#[test]
fn what_another_program_does_after_a_crash_loses_doubles_and_revives_nothing() {
    let all = scripts();
    let next = AtomicUsize::new(0);
    let count = Mutex::new(Count::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(script) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let own = play(script);
                    count.lock().unwrap().add(own);
                }
            });
        }
    });
    let count = count.into_inner().unwrap();
    println!(
        "{} cases, {} of them changed by others, {} second crashes",
        count.cases, count.changed, count.twice
    );
    assert!(count.wrong.is_empty(), "{}", count.told());
    let least = if is_long() { 10_000 } else { 2_500 };
    assert!(count.cases >= least && count.twice >= 2_000 && count.changed >= 2_000);
}

fn play(script: &Script) -> Count {
    let mut count = Count::default();
    let (first, last) = span(script);
    for step in first..=last {
        for image in images(step) {
            try_deeds((script, step, image), &mut count);
        }
    }
    count
}

#[derive(Default)]
struct Count {
    cases: u64,
    changed: u64,
    twice: u64,
    wrong: Vec<String>,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.cases += other.cases;
        self.changed += other.changed;
        self.twice += other.twice;
        self.wrong.extend(other.wrong);
    }

    fn told(&self) -> String {
        let mut kinds: BTreeMap<String, (u64, &String)> = BTreeMap::new();
        for wrong in &self.wrong {
            let kind: Vec<&str> = wrong.splitn(5, ['/', ':']).collect();
            let kind = format!("{} {}", kind[0], kind[3]);
            kinds.entry(kind).or_insert((0, wrong)).0 += 1;
        }
        let told = kinds
            .values()
            .map(|(count, wrong)| format!("{count} x {wrong}\n"));
        format!("{} wrong\n{}", self.wrong.len(), told.collect::<String>())
    }
}

fn images(step: u64) -> Vec<Image> {
    let lost = if step.is_multiple_of(2) {
        Image::AllLost
    } else {
        Image::Random(step)
    };
    let mut images = vec![Image::ProcessDeath, lost];
    if is_long() {
        let named = &Image::NAMED[2..];
        images.push(named[step as usize % named.len()]);
        images.push(Image::Random(!step));
    }
    images
}

fn try_deeds(crash: Crash<'_>, count: &mut Count) {
    let (script, step, image) = crash;
    let (storage, known) = crashed(script, step);
    let every = match asked() {
        Some(_) => 1,
        None if is_long() => 2,
        None => EVERY,
    };
    let all = deeds();
    for (nth, deed) in all.iter().enumerate() {
        if !(step + nth as u64).is_multiple_of(every) {
            continue;
        }
        let own = format!("{}/{step}/{image:?}/{}", script.name, deed.name);
        // Some act twice before we look.
        let next = match asked() {
            Some(asked) => all
                .iter()
                .find(|next| asked == format!("{own}+{}", next.name)),
            None => count
                .cases
                .is_multiple_of(PAIRS)
                .then(|| &all[(step as usize + 3 * nth) % all.len()]),
        };
        let name = match next {
            Some(next) => format!("{own}+{}", next.name),
            None => own,
        };
        if asked().is_some_and(|asked| asked != name) {
            continue;
        }
        let second = next.is_none() && (count.cases % SECOND == 1 || asked().is_some());
        let disk = storage.image(image);
        let mut after = After::crash(known.clone(), script);
        if asked().is_some() {
            print(&disk);
        }
        after.does(&disk, deed);
        if let Some(next) = next {
            after.does(&disk, next);
        }
        if asked().is_some() {
            print(&disk);
        }
        count.cases += 1;
        count.changed += u64::from(after.changed);
        let mut verdict = check(&disk, &after);
        if verdict.is_ok() && second {
            verdict = again(&storage.image(image), &known, script, deed, count);
        }
        if let Err(wrong) = verdict {
            count.wrong.push(format!("{name}: {wrong}"));
        }
    }
}

fn print(disk: &MemoryStorage) {
    for (path, bytes) in disk.dump() {
        if !path.contains("/.sessionlog/") {
            println!("{path}:\n{}", String::from_utf8_lossy(&bytes));
        }
    }
}

fn asked() -> Option<String> {
    std::env::var("SESSIONLOG_MATRIX").ok()
}

/// Of so many pairs of a crash and a deed, one is tried. Crashes at calls in a row take turns,
/// so that each deed comes to every act.
const EVERY: u64 = 12;

/// Of so many cases, one is where the other program does two things.
const PAIRS: u64 = 5;

/// Of so many cases, one is where the recovery is cut short too.
const SECOND: u64 = 41;

/// Calls of a recovery between two of those before which it is cut short.
const CALLS: usize = 7;

/// The recovery is cut short, and others do something more before the next.
fn again(
    disk: &MemoryStorage,
    known: &Known,
    script: &Script,
    deed: &Deed,
    count: &mut Count,
) -> std::result::Result<(), String> {
    let mut after = After::crash(known.clone(), script);
    after.does(disk, deed);
    for call in (0..).step_by(CALLS) {
        let cut = disk.image(Image::ProcessDeath);
        cut.crash_at(call);
        let opened = Sim::open(cut.clone(), &options(), 0);
        if cut.steps() <= call {
            return opened
                .map(drop)
                .map_err(|e| format!("it does not open: {e}"));
        }
        drop(opened);
        for (nth, second) in deeds().iter().enumerate() {
            if !(call + nth as u64).is_multiple_of(5) {
                continue;
            }
            // What they took away they saw: a power loss must not take that first.
            let image = if nth.is_multiple_of(2) || after.drops() {
                Image::ProcessDeath
            } else {
                Image::Random(call)
            };
            let found = cut.image(image);
            let mut after = after.clone();
            after.twice = true;
            if asked().is_some() {
                println!("then {call}, {image:?}, {}:", second.name);
                print(&found);
            }
            after.does(&found, second);
            count.twice += 1;
            check(&found, &after)
                .map_err(|wrong| format!("then {call}, {image:?}, {}: {wrong}", second.name))?;
        }
    }
    Ok(())
}

fn options() -> StoreOptions {
    StoreOptions::new().auto_compact(false)
}

fn opened(disk: &MemoryStorage) -> Result<Sim> {
    Sim::open(disk.clone(), &options(), 0)
}
