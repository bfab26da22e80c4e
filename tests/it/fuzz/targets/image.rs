//! Commands, a crash in the middle of them, and damage to what it leaves.

use std::time::Duration;

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::Sim;
use sessionlog::{Durability, Message};

use super::{KEY, options, use_all};

/// Commands of one input.
const MAX_COMMANDS: usize = 64;

/// Two bytes a command, up to a command `0xFF`; nine bytes for the disk that
/// the crash leaves; then four bytes for each damaged byte.
pub(crate) fn image(data: &[u8]) {
    let storage = MemoryStorage::new();
    let mut sim = Sim::open(storage.clone(), &options(), 0).expect("an empty disk");
    let mut rest = data;
    let mut texts = 0;
    for _ in 0..MAX_COMMANDS {
        let [command, argument, more @ ..] = rest else {
            break;
        };
        rest = more;
        if *command == 0xFF {
            break;
        }
        texts += 1;
        act(&mut sim, *command, *argument, texts);
    }
    drop(sim);
    let [which, seed @ ..] = take(&mut rest);
    let image = Image::NAMED.get(usize::from(which) % 12).copied();
    let image = image.unwrap_or(Image::Random(u64::from_le_bytes(seed)));
    let left = storage.image(image);
    if rest.len() < 4 {
        let sim = Sim::open(left.image(Image::ProcessDeath), &options(), 0);
        let sim = sim.expect("a crash alone never keeps a store from opening");
        assert!(
            sim.report().findings.is_empty(),
            "a crash alone is no damage"
        );
    }
    damage(&left, rest);
    use_all(&left);
}

fn take(rest: &mut &[u8]) -> [u8; 9] {
    let mut taken = [0; 9];
    let count = rest.len().min(9);
    taken[..count].copy_from_slice(&rest[..count]);
    *rest = &rest[count..];
    taken
}

fn act(sim: &mut Sim, command: u8, argument: u8, nth: usize) {
    let level = if command & 0x40 == 0 {
        Durability::Durable
    } else {
        Durability::Buffered
    };
    let handle = sim.handle().exact_keys().with_durability(level);
    let key = [KEY, "a:1", "a_1", "b"][usize::from(argument % 4)];
    let text = format!("{nth} {}", "x".repeat(usize::from(argument) * 8));
    let reply = match command & 0x0F {
        0..=5 => handle.add_message(key, "user", &text),
        6 => handle.append_all(key, vec![Message::user(&text), Message::assistant("yes")]),
        7 => handle.truncate_history(key, usize::from(argument / 64)),
        8 => handle.compact(key),
        9 => handle.set_history(key, vec![Message::user(&text)]),
        10 => handle.set_summary(key, &text),
        11 => handle.delete_session(key),
        12 => handle.upsert_session_meta(key, None, vec![format!("alias-{argument}")]),
        13 => return sim.pause(Duration::from_millis(u64::from(argument) * 4)),
        _ => return sim.flush().expect("the disk works"),
    };
    let ticket = sim.submit(reply);
    if command & 0x80 == 0 {
        let answer = sim.until_answered(&ticket).expect("everyone is answered");
        answer.expect("the disk works");
    }
}

/// Changes one byte for every four of `edits`: which file, where, and to what.
fn damage(storage: &MemoryStorage, edits: &[u8]) {
    for edit in edits.chunks_exact(4) {
        let files = storage.dump();
        if files.is_empty() {
            return;
        }
        let nth = usize::from(edit[0]) % files.len();
        let Some((path, bytes)) = files.into_iter().nth(nth) else {
            return;
        };
        let mut bytes = bytes;
        if bytes.is_empty() {
            continue;
        }
        let place = usize::from(u16::from_le_bytes([edit[1], edit[2]])) % bytes.len();
        match edit[3] {
            // Cut rather than changed.
            0 => bytes.truncate(place),
            value => bytes[place] ^= value,
        }
        let written = storage.write_foreign(path, &bytes);
        written.expect("the file is there");
    }
}
