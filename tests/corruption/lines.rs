//! The shapes of damaged lines that users of such files report.

use sessionlog::testing::disk_model::MemoryStorage;

use crate::image::look;
use crate::oracle::{repair, verify};
use crate::sweep::Count;

/// A stretch of a session file.
struct Shape {
    name: &'static str,
    bytes: Vec<u8>,
    /// What a reader shows of it.
    shown: &'static [&'static str],
    /// What it shows once repaired.
    repaired: &'static [&'static str],
    /// Lines of it that are no records.
    damaged: u64,
}

fn record(text: &str) -> String {
    format!("{{\"role\":\"user\",\"content\":\"{text}\"}}")
}

fn shapes_of_lines() -> Vec<Shape> {
    let shape = |name, bytes: Vec<u8>, shown, repaired, damaged| Shape {
        name,
        bytes,
        shown,
        repaired,
        damaged,
    };
    let whole = record("x");
    let half = &whole[..whole.len() / 2];
    let none: &'static [&'static str] = &[];
    vec![
        shape(
            "stub glued to a record",
            [half, &whole].concat().into(),
            none,
            &["x"],
            1,
        ),
        shape(
            "lost line feed",
            whole.repeat(2).into(),
            none,
            &["x", "x"],
            1,
        ),
        shape("torn line", half.into(), none, none, 1),
        shape("zeros", vec![0; 700], none, none, 1),
        shape(
            "zeros before a record",
            [&[0; 300], whole.as_bytes()].concat(),
            none,
            &["x"],
            1,
        ),
        shape("not UTF-8", b"\xff\xfe\x80".to_vec(), none, none, 1),
        shape(
            "line separators",
            record("\u{2028}").into(),
            &["\u{2028}"],
            &["\u{2028}"],
            0,
        ),
        shape("empty lines", b"\n\r\n".to_vec(), none, none, 0),
        shape("another program's", b"# a comment".to_vec(), none, none, 1),
        shape("a list", b"[1,2,3]".to_vec(), none, none, 1),
        shape("deep", b"[".repeat(20_000), none, none, 1),
        shape("long rubbish", b"x".repeat(3 << 20), none, none, 1),
        shape(
            "a control record",
            br#"{"role":"_usage","token_count":3}"#.to_vec(),
            none,
            none,
            0,
        ),
    ]
}

/// Puts every shape at every place of a session, beside every sidecar.
pub(crate) fn shapes(count: &mut Count) {
    let sidecars = [
        (
            "sound",
            Some(r#"{"key":"a","summary":"s","skip":0,"count":3}"#),
        ),
        ("missing", None),
        ("damaged", Some(r#"{"key":"a","summary":"s","skip":0,"co"#)),
        (
            "skipping",
            Some(r#"{"key":"a","summary":"s","skip":1,"count":3}"#),
        ),
        ("empty", Some("")),
    ];
    for shape in shapes_of_lines() {
        for place in 0..3 {
            for (state, sidecar) in sidecars {
                for ended in [true, false] {
                    count.variants += 1;
                    let verdict = one(&shape, place, sidecar, state, ended);
                    if let Err(wrong) = verdict {
                        let name = format!("{} at {place}, sidecar {state}", shape.name);
                        count
                            .violations
                            .push(format!("lines/{name}, ended {ended}: {wrong}"));
                    }
                }
            }
        }
    }
}

/// A session with every shape in it, beside one with a damaged sidecar.
pub(crate) fn worst() -> MemoryStorage {
    let disk = MemoryStorage::new();
    let shapes = shapes_of_lines()
        .into_iter()
        .filter(|shape| shape.bytes.len() < 1000);
    let mut lines = vec![record("one").into_bytes()];
    lines.extend(shapes.map(|shape| shape.bytes));
    for (name, bytes) in [
        ("a.jsonl", lines.join(&b'\n')),
        (
            "a.meta.json",
            br#"{"key":"a","summary":"s","skip":0,"count":3}"#.to_vec(),
        ),
        ("b_1.jsonl", record("two").into_bytes()),
        (
            "b_1.meta.json",
            br#"{"key":"b:1","summary":"kept","skip":"#.to_vec(),
        ),
        ("c.jsonl", record("three").into_bytes()),
        ("d_d.meta.json", b"rubbish".to_vec()),
    ] {
        let path = format!("sessions/{name}");
        disk.write_foreign(path, &bytes).expect("the disk is new");
    }
    disk
}

fn one(
    shape: &Shape,
    place: usize,
    sidecar: Option<&str>,
    state: &str,
    ended: bool,
) -> Result<(), String> {
    let mut parts = vec![record("one").into_bytes(), record("two").into_bytes()];
    parts.insert(place, shape.bytes.clone());
    let mut log = parts.join(&b'\n');
    if ended {
        log.push(b'\n');
    }
    let disk = MemoryStorage::new();
    let put = |name: &str, bytes: &[u8]| disk.write_foreign(name, bytes).map_err(|e| e.to_string());
    put("sessions/a.jsonl", &log)?;
    if let Some(sidecar) = sidecar {
        put("sessions/a.meta.json", sidecar.as_bytes())?;
    }
    let is_line = shape.name != "empty lines";
    let skip = usize::from(state == "skipping");
    check(&disk, &expected(shape.shown, is_line, place, skip), "found")?;
    let found = verify(&disk)?;
    let damaged = found.sessions[0].damaged_lines;
    if damaged != shape.damaged {
        return Err(format!("{damaged} damaged lines, says\n{found}"));
    }
    repair(&disk, false)?;
    check(
        &disk,
        &expected(shape.repaired, is_line, place, skip),
        "repaired",
    )?;
    let found = verify(&disk)?;
    if !found.is_sound() {
        return Err(format!("repaired, and verify finds\n{found}"));
    }
    let again = repair(&disk, true)?;
    if again != sessionlog::RepairReport::default() {
        return Err(format!("a second repair: {again}"));
    }
    Ok(())
}

/// The texts of a session of two messages with `shape` at `place`, the first
/// `skip` of its lines hidden.
fn expected(shape: &[&str], is_line: bool, place: usize, skip: usize) -> Vec<String> {
    let mut lines = vec![vec!["one"], vec!["two"]];
    if is_line {
        lines.insert(place, shape.to_vec());
    }
    lines.drain(..skip);
    lines.concat().into_iter().map(str::to_owned).collect()
}

fn check(disk: &MemoryStorage, expected: &[String], when: &str) -> Result<(), String> {
    let seen = look(disk).map_err(|e| e.to_string())?;
    if seen["a"].0 == expected {
        Ok(())
    } else {
        Err(format!("{when} {:?}, not {expected:?}", seen["a"].0))
    }
}
