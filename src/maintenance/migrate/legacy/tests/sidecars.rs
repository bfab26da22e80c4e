//! Older sessions in files with the names of sidecars.

use super::*;

#[test]
fn a_session_called_x_meta_is_imported_and_x_has_its_usual_files() {
    let disk = disk(&[
        ("x.json", &session("x", &["x"], "of x")),
        ("x.meta.json", &session("x.meta", &["meta"], "of x.meta")),
    ]);
    let rig = LegacyRig::open(&disk).unwrap();
    assert!(rig.list().is_empty());
    assert_eq!(
        rig.handle.resolve_session_key("x.meta").wait().unwrap(),
        None
    );
    assert_eq!(rig.handle.summary("x").wait().unwrap(), "");
    assert_eq!(rig.migrate().unwrap().migrated, 2);
    rig.close().unwrap();
    for name in ["x.jsonl", "x.meta.jsonl", "x.meta.meta.json"] {
        assert!(get(&disk, name).is_some(), "{name}");
    }
    assert!(get(&disk, "x.meta.json").unwrap().contains("\"skip\""));

    let rig = LegacyRig::open(&disk).unwrap();
    assert_eq!(rig.list(), ["x", "x.meta"]);
    assert_eq!(rig.texts("x"), ["x"]);
    assert_eq!(rig.texts("x.meta"), ["meta"]);
    assert_eq!(rig.migrate().unwrap().migrated, 0);
    rig.close().unwrap();
}

#[test]
fn until_it_is_imported_a_session_in_the_place_of_a_sidecar_keeps_its_bytes() {
    let file = session("x.meta", &["meta"], "");
    let disk = disk(&[("x.meta.json", &file)]);
    for round in 1..=2 {
        let rig = LegacyRig::open(&disk).unwrap();
        rig.handle.add_message("x", "user", "hi").wait().unwrap();
        rig.handle.set_summary("x", "s").wait().unwrap();
        rig.close().unwrap();
        assert_eq!(get(&disk, "x.meta.json").as_ref(), Some(&file));
        let rig = LegacyRig::open(&disk).unwrap();
        assert_eq!(rig.list(), ["x"]);
        assert_eq!(rig.texts("x").len(), round);
        rig.close().unwrap();
    }
    let rig = LegacyRig::open(&disk).unwrap();
    assert_eq!(rig.migrate().unwrap().migrated, 1);
    rig.close().unwrap();
    let rig = LegacyRig::open(&disk).unwrap();
    assert_eq!(rig.texts("x.meta"), ["meta"]);
    assert_eq!(rig.texts("x"), ["hi", "hi"]);
    rig.close().unwrap();
}

#[test]
fn a_session_in_the_place_of_a_sidecar_that_is_needed_is_set_aside() {
    let file = session("x.meta", &["meta"], "not of x");
    let lines = "{\"role\":\"user\",\"content\":\"old\"}\n";
    let kept = |disk: &MemoryStorage| disk.dump().values().any(|b| *b == file.as_bytes());
    for crash in [false, true] {
        let disk = disk(&[("x.meta.json", &file), ("x.jsonl", lines)]);
        let rig = LegacyRig::open(&disk).unwrap();
        assert_eq!(rig.texts("x"), ["old"]);
        assert_eq!(rig.handle.summary("x").wait().unwrap(), "");
        rig.handle.add_message("x", "user", "new").wait().unwrap();
        let left = disk.image(Image::AllLost);
        rig.close().unwrap();
        let disk = if crash { left } else { disk };
        let rig = LegacyRig::open(&disk).unwrap();
        assert_eq!(rig.texts("x"), ["old", "new"]);
        rig.close().unwrap();
        assert!(kept(&disk), "after a crash: {crash}");
    }
}

#[test]
fn sidecars_are_never_imported() {
    let sidecar = r#"{"key":"y","summary":"s","skip":0,"count":0}"#;
    let other = session("looks:like", &["under another name"], "");
    let disk = disk(&[("y.meta.json", sidecar), ("looks-like.meta.json", &other)]);
    let rig = LegacyRig::open(&disk).unwrap();
    let report = rig.migrate().unwrap();
    assert_eq!((report.migrated, report.skipped.len()), (0, 0));
    rig.close().unwrap();
    assert_eq!(get(&disk, "y.meta.json").as_deref(), Some(sidecar));
    assert_eq!(get(&disk, "looks-like.meta.json"), Some(other));
}
