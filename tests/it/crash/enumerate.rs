//! A crash before every call, and every disk it may leave.

use std::fmt;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicUsize, Ordering};

use sessionlog::testing::disk_model::Image;

use crate::crash::check;
use crate::crash::overwrites;
use crate::crash::play::Play;
use crate::crash::script::{self, Script};

/// How many violations are told in full.
const TOLD: usize = 12;

/// After so many violations nothing more is tried.
const ENOUGH: usize = 100;

/// One crash: of which script, in which order of the engine's parts, before
/// which call, and what it left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case<'a> {
    pub(crate) script: &'a Script,
    pub(crate) seed: u64,
    pub(crate) step: u64,
    pub(crate) image: Image,
}

/// What was tried.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) images: u64,
    pub(crate) recoveries: u64,
    pub(crate) violations: Vec<String>,
}

/// Crashes every script at every call, and in orders after the first at one of `every` calls.
pub(crate) fn crashes(random: u64, schedules: u64, every: u64) -> Count {
    let scripts = script::all();
    let mut work = Vec::new();
    for script in &scripts {
        let orders = script.schedules.min(schedules);
        let seeds = if script.replaces {
            overwrites::replacing(script, orders as usize)
        } else {
            (0..orders).collect()
        };
        for (nth, seed) in seeds.into_iter().enumerate() {
            let (first, last) = span(script, seed);
            let every = if nth == 0 { 1 } else { every as usize };
            work.extend(
                (first..last)
                    .step_by(every)
                    .map(|step| (script, seed, step)),
            );
        }
    }
    in_parallel(&work, |&(script, seed, step)| {
        crash(script, seed, step, random)
    })
}

/// Plays every script to its end in many orders, and crashes it there.
pub(crate) fn schedules(orders: u64) -> Count {
    let scripts = script::all();
    let every = |script| (0..orders).map(move |seed| (script, seed));
    let work: Vec<_> = scripts.iter().flat_map(every).collect();
    in_parallel(&work, |&(script, seed)| {
        let mut count = Count::default();
        let mut play = Play::new(script, seed);
        play.open();
        play.play();
        play.die();
        let end = play.storage.steps();
        for fault in play.faults.iter().chain(&play.failures()) {
            count.note(script.name, seed, end, &"play", fault);
        }
        for image in [Image::ProcessDeath, Image::AllLost, Image::Random(seed)] {
            count.try_image(&play, seed, end, image);
        }
        count
    })
}

/// Runs `act` on every item of `work`, on all processors.
pub(crate) fn in_parallel<T: Sync>(work: &[T], act: impl Fn(&T) -> Count + Sync) -> Count {
    let (next, wrong) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let carry = || {
        let mut count = Count::default();
        while wrong.load(Ordering::Relaxed) < ENOUGH
            && let Some(item) = work.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let tried = act(item);
            wrong.fetch_add(tried.violations.len(), Ordering::Relaxed);
            count += tried;
        }
        count
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut total = Count::default();
    std::thread::scope(|scope| {
        let crew: Vec<_> = (0..threads).map(|_| scope.spawn(carry)).collect();
        for each in crew {
            total += each.join().expect("a violation is no panic");
        }
    });
    total
}

/// The calls of an undisturbed play.
pub(crate) fn span(script: &Script, seed: u64) -> (u64, u64) {
    let mut play = Play::new(script, seed);
    assert!(play.open(), "{}: {:?}", script.name, play.faults);
    let opened = play.storage.steps();
    play.play();
    assert!(play.faults.is_empty(), "{}: {:?}", script.name, play.faults);
    let failures = play.failures();
    assert!(failures.is_empty(), "{}: {failures:?}", script.name);
    let first = if script.from_nothing { 0 } else { opened };
    (first, play.storage.steps() + 1)
}

fn crash(script: &Script, seed: u64, step: u64, random: u64) -> Count {
    let mut count = Count::default();
    let play = crashed(script, seed, step);
    for fault in &play.faults {
        count.note(script.name, seed, step, &"play", fault);
    }
    for image in check::images(step, random) {
        count.try_image(&play, seed, step, image);
    }
    count
}

/// A script played until the power is cut.
pub(crate) fn crashed(script: &Script, seed: u64, step: u64) -> Play<'_> {
    let mut play = Play::new(script, seed);
    play.storage.crash_at(step);
    if play.open() {
        play.play();
    }
    play.die();
    play
}

impl Case<'_> {
    /// What the environment asks for, if anything.
    pub(crate) fn asked_for() -> Option<Case<'static>> {
        let asked = std::env::var("SESSIONLOG_CRASH").ok()?;
        let parts: Vec<_> = asked.split('/').collect();
        let [name, seed, step, image] = parts[..] else {
            panic!("{asked}: not script/seed/step/image");
        };
        let scripts: &'static [Script] = Box::leak(script::all().into_boxed_slice());
        Some(Case {
            script: scripts.iter().find(|s| s.name == name).expect("a script"),
            seed: seed.parse().expect("a seed"),
            step: step.parse().expect("a step"),
            image: parse_image(image).expect("an image"),
        })
    }

    /// Plays it alone and tells everything.
    pub(crate) fn replay(&self) {
        let play = crashed(self.script, self.seed, self.step);
        for call in play.storage.last_calls(500) {
            println!("{call}");
        }
        for (key, act, answer) in play.answers() {
            println!("{key}: {act:?}: {answer:?}");
        }
        let left = play.storage.image(self.image);
        for (path, bytes) in left.dump() {
            let zeros: usize = bytes.iter().map(|byte| usize::from(*byte == 0)).sum();
            if zeros * 2 > bytes.len() {
                println!("{path}: {} bytes, {zeros} of them zero", bytes.len());
            } else {
                println!("{path}: {}", String::from_utf8_lossy(&bytes));
            }
        }
        let verdict = check::after_crash(&play, &left, check::loss(self.image));
        println!("{:?}", play.faults);
        println!("calls of recovery:");
        for call in left.last_calls(200) {
            println!("  {call}");
        }
        assert_eq!(verdict.err(), None);
    }
}

fn parse_image(text: &str) -> Option<Image> {
    let named = Image::NAMED.into_iter();
    let mut named = named.filter(|image| format!("{image:?}") == text);
    named.next().or_else(|| {
        let seed = text.strip_prefix("Random(")?.strip_suffix(')')?;
        Some(Image::Random(seed.parse().ok()?))
    })
}

impl Count {
    /// Recovers what a crash of `play` leaves.
    fn try_image(&mut self, play: &Play<'_>, seed: u64, step: u64, image: Image) {
        self.images += 1;
        let left = play.storage.image(image);
        match check::after_crash(play, &left, check::loss(image)) {
            Ok(recoveries) => self.recoveries += recoveries,
            Err(fault) => self.note(play.script().name, seed, step, &image, &fault),
        }
    }

    /// Writes a violation down, with what replays it.
    pub(crate) fn note(
        &mut self,
        script: &str,
        seed: u64,
        step: u64,
        image: &dyn fmt::Debug,
        fault: &str,
    ) {
        self.violations
            .push(format!("{script}/{seed}/{step}/{image:?}: {fault}"));
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.images += other.images;
        self.recoveries += other.recoveries;
        self.violations.extend(other.violations);
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (images, recoveries) = (self.images, self.recoveries);
        let violations = self.violations.len();
        write!(
            f,
            "crash: {images} images, {recoveries} recoveries, {violations} violations"
        )?;
        let mut told = std::collections::BTreeSet::new();
        for violation in &self.violations {
            let script = violation.split('/').next();
            if told.len() < TOLD && told.insert(script) {
                write!(f, "\n  {violation}")?;
            }
        }
        Ok(())
    }
}
