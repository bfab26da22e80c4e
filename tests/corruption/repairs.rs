//! A repair cut short at every call, and repaired again.

use sessionlog::testing::disk_model::{Fault, Image, MemoryStorage, Repeat};

use crate::damage::{self, Damage};
use crate::image::{self, Seen, Store, look};
use crate::oracle::{Verdict, is_subsequence, repair, verify};
use crate::sweep::in_parallel;
use crate::{lines, long, tell};

const LEFT: [Image; 5] = [
    Image::ProcessDeath,
    Image::AllLost,
    Image::AllKept,
    Image::SizeWithoutData,
    Image::DataWithoutName,
];

#[test]
fn a_repair_cut_short_anywhere_is_carried_out_by_the_next_one() {
    let stores = image::all();
    let mut work: Vec<(String, MemoryStorage, Seen, u64)> = Vec::new();
    let mut add = |name: String, hurt: MemoryStorage| {
        let whole = hurt.image(Image::ProcessDeath);
        repair(&whole, true).expect("undisturbed it succeeds");
        let expected = look(&whole).expect("repaired, it reads");
        // Not the same calls of every damage: many repairs begin alike.
        let (step, nth) = if long() {
            (11, work.len() as u64)
        } else {
            (89, work.len() as u64)
        };
        let calls = (nth % step..whole.steps()).step_by(step as usize);
        work.extend(calls.map(|call| (name.clone(), hurt.clone(), expected.clone(), call)));
    };
    for store in &stores {
        for damage in chosen(store) {
            let name = format!("{}/{} {}", store.name, damage.how, damage.path);
            add(name, damage.inflict(&store.disk));
        }
    }
    add("lines/all shapes".into(), lines::worst());
    let wrong = in_parallel(&work, |(name, hurt, expected, call)| {
        let wrong = cut_short(hurt, expected, *call);
        wrong.map_err(|wrong| format!("{name}: call {call}, {wrong}"))
    });
    let images = work.len() * (LEFT.len() + 1 + 3);
    tell(&format!(
        "repair: {images} images, {} violations",
        wrong.len()
    ));
    assert!(wrong.is_empty(), "{:#?}", &wrong[..wrong.len().min(8)]);
    assert!(images >= if long() { 10_000 } else { 2_000 }, "{images}");
}

/// One damage of each kind that repair treats in its own way.
fn chosen(store: &Store) -> Vec<Damage> {
    let mut all = damage::all(store, 97);
    let mut kinds = std::collections::BTreeSet::new();
    all.retain(|damage| {
        let how: String = damage.how.chars().filter(|c| c.is_alphabetic()).collect();
        let header = damage.range.start < 4096;
        let name = damage
            .path
            .rsplit_once('.')
            .map(|(_, extension)| extension.to_owned());
        kinds.insert((how, header, name))
    });
    all
}

/// Lets the power fail before a call, and that call fail; repairs again what
/// either leaves.
fn cut_short(hurt: &MemoryStorage, expected: &Seen, call: u64) -> Verdict {
    for crash in [true, false] {
        let disk = hurt.image(Image::ProcessDeath);
        if crash {
            disk.crash_at(call);
        } else {
            disk.fail_at(call, Fault::Eio, Repeat::Once);
        }
        // How far it came is what the images are about.
        let _ = repair(&disk, true);
        disk.heal();
        let named: &[Image] = if crash { &LEFT } else { &LEFT[..2] };
        for left in named.iter().copied().chain([Image::Random(call)]) {
            again(&disk.image(left), expected).map_err(|wrong| format!("{left:?}: {wrong}"))?;
        }
    }
    Ok(())
}

fn again(disk: &MemoryStorage, expected: &Seen) -> Verdict {
    let report = repair(disk, true)?;
    let now = look(disk).map_err(|e| e.to_string())?;
    let found = verify(disk)?;
    if !found.is_sound() {
        return Err(format!("{found}"));
    }
    // Lines that recovery puts behind what another program changed may be torn
    // by a second power loss, and are there twice then.
    let behind = |key: &str| {
        let (now, expected) = (&now[key], &expected[key]);
        now.0.iter().all(|text| expected.0.contains(text))
            && is_subsequence(&expected.0, &now.0)
            && now.1 == expected.1
    };
    if now == *expected || expected.keys().all(|key| behind(key)) {
        Ok(())
    } else {
        Err(format!("{now:?}, not {expected:?} after {report}"))
    }
}
