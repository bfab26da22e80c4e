//! A repair cut short at every call, and repaired again.

use sessionlog::storage::memory::{Fault, Image, MemoryStorage, Repeat};

use crate::damage::{self, Damage};
use crate::image::{self, Store, look};
use crate::oracle::{repair, verify};
use crate::{lines, tell};

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
    let (mut images, mut wrong) = (0, Vec::new());
    for store in &stores {
        for damage in chosen(store) {
            let hurt = damage.inflict(&store.disk);
            crash_everywhere(&hurt, store.name, &damage.how, &mut images, &mut wrong);
        }
    }
    let worst = lines::worst();
    crash_everywhere(&worst, "lines", "all shapes", &mut images, &mut wrong);
    tell(&format!(
        "repair: {images} images, {} violations",
        wrong.len()
    ));
    assert!(wrong.is_empty(), "{:#?}", &wrong[..wrong.len().min(8)]);
    assert!(images >= 2_000, "{images}");
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

fn crash_everywhere(
    hurt: &MemoryStorage,
    name: &str,
    how: &str,
    images: &mut usize,
    wrong: &mut Vec<String>,
) {
    let whole = hurt.image(Image::ProcessDeath);
    if let Err(e) = repair(&whole, true) {
        wrong.push(format!("{name}/{how}: {e}"));
        return;
    }
    let Ok(expected) = look(&whole) else {
        wrong.push(format!("{name}/{how}: repaired, and cannot be read"));
        return;
    };
    for call in 0..whole.steps() {
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
                *images += 1;
                let disk = disk.image(left);
                let again = repair(&disk, true);
                let now = look(&disk).map_err(|e| e.to_string());
                let sound = verify(&disk).map(|found| found.problems());
                let same = now.as_ref() == Ok(&expected);
                if again.is_err() || !same || sound != Ok(Vec::new()) {
                    wrong.push(format!(
                        "{name}/{how}: call {call}, {left:?}: {again:?}, {sound:?}, {now:?}, not {expected:?}"
                    ));
                }
            }
        }
    }
}
