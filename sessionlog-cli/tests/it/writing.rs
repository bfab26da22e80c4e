//! Verbs that write.

use std::fs;

use sessionlog::{Message, Store, StoreOptions};

use crate::support::{EIGHT, Fixture, SEVEN, json, run, run_with};

#[test]
fn a_locked_store_is_refused_with_who_holds_it() {
    let fixture = Fixture::new();
    let store = Store::open(fixture.dir()).unwrap();
    let pid = std::process::id().to_string();
    for (verb, args) in [
        ("compact", vec!["--all"]),
        ("rename", vec!["a", "b"]),
        ("delete", vec!["a"]),
        ("title", vec!["a", "b"]),
        ("label", vec!["a", "b"]),
        ("undelete", vec!["a"]),
        ("repair", vec![]),
        ("erase", vec!["--person", "7", "--yes"]),
        ("retention", vec!["--count", "1", "--apply"]),
        ("migrate", vec![]),
        ("handover", vec![]),
        ("import", vec!["-", "--format", "jsonl", "--to", "x"]),
    ] {
        let err = run(verb, &fixture.dir(), &args).fails();
        assert!(err.contains(&format!("process {pid}")), "{verb}: {err}");
        assert!(err.contains("stop that"), "{verb}: {err}");
    }
    let top = json(&run("top", &fixture.dir(), &["--once", "--json"]).exits(0));
    assert_eq!(top[0]["store"]["writer"], format!("process {pid}"));
    store.close().unwrap();
}

#[test]
fn damage_is_found_mended_and_gone() {
    let fixture = Fixture::new();
    let dir = fixture.dir();
    run("verify", &dir, &[]).exits(0);
    let log = dir.join(format!("{}.jsonl", EIGHT.replace(':', "_")));
    let mut bytes = fs::read(&log).unwrap();
    bytes.extend_from_slice(b"{\"role\":\"us\x1b[31m\n{\"role\":\"user\",\"content\":\"after\"}\n");
    fs::write(&log, bytes).unwrap();
    let found = run("verify", &dir, &[]).exits(1);
    assert!(
        found.contains("no record") && !found.contains('\x1b'),
        "{found}"
    );
    let summary = json(&run("verify", &dir, &["--json"]).exits(1));
    assert_eq!(summary[0]["damaged_lines"], 1);
    let mended = run("repair", &dir, &[]).exits(0);
    assert!(
        mended.contains("quarantine") && mended.contains("repair-"),
        "{mended}"
    );
    assert!(mended.contains("nothing was lost\n"), "{mended}");
    run("verify", &dir, &[]).exits(0);
    let shown = run("show", &dir, &[EIGHT]).exits(0);
    assert!(
        shown.contains("  hi\n") && shown.contains("  after\n"),
        "{shown}"
    );
}

/// A directory as PicoClaw leaves it: no copy of a sidecar is there.
fn of_picoclaw(sessions: &[(&str, usize)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (key, count) in sessions {
        let stem = key.replace(':', "_");
        let line = |n| format!("{{\"role\":\"user\",\"content\":\"line {n}\"}}\n");
        let log: String = (0..*count).map(line).collect();
        let time = "2026-11-20T10:00:00Z";
        let meta = serde_json::json!({
            "key": key, "summary": "", "skip": 0, "count": count,
            "created_at": time, "updated_at": time,
        });
        fs::write(dir.path().join(format!("{stem}.jsonl")), log).unwrap();
        let sidecar = dir.path().join(format!("{stem}.meta.json"));
        fs::write(sidecar, meta.to_string()).unwrap();
    }
    dir
}

#[test]
fn what_the_files_no_longer_hold_is_named_and_no_success() {
    let dir = of_picoclaw(&[("a:1", 8), ("a:2", 3)]);
    let log = dir.path().join("a_1.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    // In the middle of the fourth line.
    let half: String = text.chars().take(text.len() / 8 * 3 + 10).collect();
    fs::write(&log, half).unwrap();
    fs::remove_file(dir.path().join("a_2.meta.json")).unwrap();

    let found = run("verify", dir.path(), &[]).exits(1);
    assert!(found.contains("a_2: no sidecar") && found.contains("messages in it: 3"));
    let summary = json(&run("verify", dir.path(), &["--json"]).exits(1));
    assert_eq!(summary[0]["ownerless"], serde_json::json!(["a_2"]));
    let mended = run("repair", dir.path(), &[]).exits(1);
    assert!(mended.contains("lost: a:1: lines that the sidecar counts, unless it was wrong: 5"));
    run("verify", dir.path(), &[]).exits(0);
}

#[test]
fn only_what_is_lost_is_called_so() {
    for (is_torn, code, left) in [(false, 0, 3), (true, 1, 2)] {
        let dir = of_picoclaw(&[("a:1", 3)]);
        let log = dir.path().join("a_1.jsonl");
        let text = fs::read_to_string(&log).unwrap();
        let damaged = if is_torn {
            text[..text.len() - 20].to_owned()
        } else {
            text.replacen('\n', "", 2)
        };
        fs::write(&log, damaged).unwrap();
        let mended = run("repair", dir.path(), &[]).exits(code);
        assert_eq!(mended.contains("lost: "), code == 1, "{mended}");
        let shown = json(&run("show", dir.path(), &["a:1", "--json"]).exits(0));
        assert_eq!(shown.len(), left);
    }
}

#[test]
fn a_sidecar_that_lost_its_times_is_mended_with_a_loss() {
    let dir = of_picoclaw(&[("a:1", 3)]);
    let sidecar = dir.path().join("a_1.meta.json");
    let torn = r#"{"key":"a:1","summary":"","skip":0,"count":3,"scope":null,"aliases":[],"cre"#;
    fs::write(&sidecar, torn).unwrap();
    let mended = run("repair", dir.path(), &[]).exits(1);
    assert!(
        mended.contains("created_at, updated_at") && mended.contains("lost"),
        "{mended}"
    );
}

#[test]
fn a_verb_that_finds_no_store_makes_none() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("package.json"), "{}").unwrap();
    for (verb, args) in [
        ("title", vec!["telegram:7", "x"]),
        ("repair", vec![]),
        ("compact", vec!["--all"]),
        ("erase", vec!["--person", "7", "--yes"]),
        ("retention", vec!["--count", "1", "--apply"]),
    ] {
        let err = run(verb, dir.path(), &args).fails();
        assert!(err.contains("no sessions in"), "{verb}: {err}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{verb}");
    }
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("notes.txt"), "no session").unwrap();
    let args = ["-", "--format", "jsonl", "--to", "web:1"];
    let message = "{\"role\":\"user\",\"content\":\"one\"}\n";
    let err = run_with("import", other.path(), &args, message).fails();
    assert!(err.contains("other things than sessions"), "{err}");
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1);
}

#[test]
fn a_directory_of_something_else_is_no_sound_store() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("notes.txt"), "no session").unwrap();
    let ran = run("verify", dir.path(), &[]);
    assert!(ran.err.contains("right directory"), "{}", ran.err);
    ran.exits(1);
    let summary = json(&run("verify", dir.path(), &["--json"]).exits(1));
    assert_eq!(summary[0]["sound"], false);
}

#[test]
fn a_person_is_erased_only_after_a_yes_and_then_for_good() {
    let fixture = Fixture::new();
    let (dir, before) = (fixture.dir(), fixture.files());
    let refused = run("erase", &dir, &["--person", "7"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.out.contains(SEVEN) && refused.err.contains("--yes"),
        "{}",
        refused.err
    );
    let begins = run("erase", &dir, &["--session", "web:e"]).fails();
    assert!(begins.contains("whole key"), "{begins}");
    let after = fixture.files();
    let of = |files: &std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>| {
        let files = files
            .iter()
            .filter(|(path, _)| path.parent() == Some(&*dir));
        files
            .map(|(path, bytes)| (path.clone(), bytes.clone()))
            .collect::<Vec<_>>()
    };
    assert!(of(&before) == of(&after));

    let receipt = run("erase", &dir, &["--person", "7", "--yes"]).exits(0);
    assert!(receipt.contains(&format!("erased {SEVEN}")), "{receipt}");
    for (path, bytes) in fixture.files() {
        let text = String::from_utf8_lossy(&bytes);
        assert!(
            !text.contains("invoice") && !text.contains(SEVEN),
            "{path:?}"
        );
    }
    let again = run("erase", &dir, &["--person", "7", "--yes"]);
    assert!(
        again.err.contains("nothing was there to be erased"),
        "{}",
        again.err
    );
    assert!(!again.exits(1).contains("removed"));
    let left = run("ls", &dir, &["--keys", "--sort", "name"]).exits(0);
    assert_eq!(left, format!("{EIGHT}\nweb:evil\n"));
}

#[test]
fn retention_shows_what_goes_and_deletes_it_when_told_to() {
    let fixture = Fixture::new();
    let dir = fixture.dir();
    let plan = run("retention", &dir, &["--count", "1"]).exits(0);
    assert!(
        plan.contains(SEVEN) && plan.contains("2 sessions"),
        "{plan}"
    );
    assert_eq!(run("ls", &dir, &["--keys"]).exits(0).lines().count(), 3);
    run("retention", &dir, &["--age", "1h", "--apply"]).exits(0);
    assert_eq!(run("ls", &dir, &["--keys"]).exits(0).lines().count(), 3);
    let done = json(&run("retention", &dir, &["--count", "1", "--apply", "--json"]).exits(0));
    assert_eq!(done[0]["deleted"].as_array().unwrap().len(), 2);
    assert_eq!(run("ls", &dir, &["--keys"]).exits(0), "web:evil\n");
    run("retention", &dir, &[]).fails();
}

#[test]
fn what_is_compacted_is_in_the_archive_and_found_there() {
    let fixture = Fixture::new();
    let dir = fixture.dir();
    fixture.write_with(StoreOptions::new().auto_compact(false), |chats| {
        chats.truncate_history(SEVEN, 1).wait().unwrap();
    });
    run("search", &dir, &["invoice of May"]).exits(1);
    run("compact", &dir, &[SEVEN, "--archive"]).exits(0);
    let months = run("archive list", &dir, &[SEVEN]).exits(0);
    let month = months.trim();
    let shown = run("archive show", &dir, &[SEVEN, month]).exits(0);
    assert!(shown.contains("invoice of May"), "{shown}");
    assert!(
        run("archive show", &dir, &[SEVEN, "1999-01"])
            .fails()
            .contains(month)
    );
    let found = run("search", &dir, &["invoice of May", "--archived"]).exits(0);
    assert!(found.contains("(archived)"), "{found}");
}

#[test]
fn a_command_that_writes_drops_no_hidden_line() {
    let fixture = Fixture::new();
    let dir = fixture.dir();
    fixture.write_with(StoreOptions::new().auto_compact(false), |chats| {
        chats.truncate_history(SEVEN, 1).wait().unwrap();
    });
    run("title", &dir, &[SEVEN, "Oslo in May"]).exits(0);
    run("label", &dir, &[SEVEN, "travel"]).exits(0);
    run("rename", &dir, &[SEVEN, "telegram:700"]).exits(0);
    run("edit", &dir, &["telegram:700", "1", "and once more"]).exits(0);
    let found = run("search", &dir, &["invoice of May", "--archived"]).exits(0);
    assert!(found.contains("(hidden)"), "{found}");
}

#[test]
fn older_files_are_taken_over_in_place() {
    let fixture = Fixture::new();
    let dir = fixture.dir();
    let older = r#"{"key":"old:1","messages":[{"role":"user","content":"from before"}],"created":"2024-01-02T03:04:05Z","updated":"2024-01-02T03:04:05Z"}"#;
    fs::write(dir.join("old_1.json"), older).unwrap();
    fs::write(dir.join("bad.json"), "{").unwrap();
    let told = run("migrate", &dir, &[]).exits(1);
    assert!(
        told.contains("1 session imported") && told.contains("bad.json"),
        "{told}"
    );
    let shown = run("show", &dir, &["old:1"]).exits(0);
    assert!(shown.contains("from before"), "{shown}");
    let recent = run("ls", &dir, &["--keys", "--since", "yesterday"]).exits(0);
    assert!(!recent.contains("old:1"), "{recent}");
    fs::remove_file(dir.join("bad.json")).unwrap();
    run("migrate", &dir, &[]).exits(0);
    assert!(dir.join("old_1.json.migrated").exists());
    // With nothing of a store beside them.
    let alone = tempfile::tempdir().unwrap();
    fs::write(alone.path().join("old_1.json"), older).unwrap();
    let told = run("ls", alone.path(), &[]).fails();
    assert!(told.contains("sessionlog migrate"), "{told}");
    run("migrate", alone.path(), &[]).exits(0);
    let shown = run("show", alone.path(), &["old:1"]).exits(0);
    assert!(shown.contains("from before"), "{shown}");
    let nowhere = alone.path().join("nowhere");
    run("migrate", &nowhere, &[]).fails();
    assert!(!nowhere.exists());
}

#[test]
fn a_handover_says_what_picoclaw_cannot_read() {
    let fixture = Fixture::new();
    let dir = fixture.dir();
    run("handover", &dir, &[]).exits(0);
    fixture.write(|chats| {
        let parts = br#"{"role":"user","content":[{"type":"text","text":"in parts"}]}"#;
        let parts = Message::from_json(parts).unwrap();
        chats.add_full_message(EIGHT, parts).wait().unwrap();
        chats.context(SEVEN).checkpoint(false).wait().unwrap();
        // PicoClaw looks for both in one file.
        chats.add_message("a:b", "user", "one").wait().unwrap();
        chats.add_message("a_b", "user", "two").wait().unwrap();
    });
    let told = json(&run("handover", &dir, &["--json"]).exits(1));
    let less = told[0]["less"].as_object().unwrap();
    assert!(
        less[EIGHT][0].as_str().unwrap().contains("lists of parts"),
        "{less:?}"
    );
    assert!(
        less[SEVEN][0].as_str().unwrap().contains("control records"),
        "{less:?}"
    );
    let twins = ["a:b", "a_b"].iter().filter(|key| less.contains_key(**key));
    assert_eq!(twins.count(), 1, "{less:?}");
    let journal = fs::read_dir(dir.join(".sessionlog/journal")).unwrap();
    assert_eq!(journal.count(), 0);
}

#[test]
fn messages_come_in_through_a_pipe_or_not_at_all() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let lines =
        "{\"role\":\"user\",\"content\":\"one\"}\n{\"role\":\"user\",\"content\":\"two\"}\n";
    let args = ["-", "--format", "jsonl", "--to", "web:1"];
    let told = run_with("import", &dir, &args, lines).exits(0);
    assert!(told.contains("2 messages"), "{told}");
    let broken = format!("{lines}nonsense\n");
    let err = run_with("import", &dir, &args, &broken).fails();
    assert!(err.contains("line 3"), "{err}");
    assert_eq!(
        json(&run("show", &dir, &["web:1", "--json"]).exits(0)).len(),
        2
    );
    let none = fixture.beside("none");
    assert!(
        run("import", &none, &["-", "--format", "jsonl"])
            .fails()
            .contains("--to")
    );
    assert!(!none.exists());
}

#[test]
fn a_tree_of_transcripts_is_imported_and_what_is_not_known_is_named() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let tree = fixture.beside("projects");
    fs::create_dir_all(tree.join("p")).unwrap();
    let line = r#"{"type":"user","uuid":"1","sessionId":"s1","timestamp":"2024-03-01T09:00:00Z","message":{"role":"user","content":"fix it"}}"#;
    fs::write(tree.join("p/s1.jsonl"), format!("\u{feff}{line}\r\n")).unwrap();
    fs::write(
        tree.join("chat.json"),
        r#"[{"role":"user","content":"hi"}]"#,
    )
    .unwrap();
    fs::write(tree.join("other.json"), "{\"a\":1}").unwrap();
    let tree = tree.to_str().unwrap();
    let told = run("import", &dir, &[tree]).exits(1);
    assert!(
        told.contains("Claude Code: 1 file, 1 message imported"),
        "{told}"
    );
    assert!(
        told.contains("other.json: left as it is") && told.contains("line 1"),
        "{told}"
    );
    let keys = run("ls", &dir, &["--keys", "--all"]).exits(0);
    assert_eq!(keys, "openai:chat\nclaude-code:s1\n");
    run("ls", &dir, &["--since", "yesterday", "--keys"]).exits(0);
    let again = run("import", &dir, &[tree]).exits(1);
    assert!(again.contains("has messages already"), "{again}");
    let one = format!("{tree}/p/s1.jsonl");
    let told = run("import", &dir, &[&one, "--to", "k"]).exits(0);
    assert!(
        told.contains("1 message of Claude Code imported to k"),
        "{told}"
    );
    let refused = run("import", &dir, &[&one, "--format", "jsonl", "--to", "k"]).fails();
    assert!(
        refused.contains("line 1") && refused.contains("no role"),
        "{refused}"
    );
}

fn claude_line(session: &str, agent: &str, text: &str) -> String {
    let (side, agent) = match agent {
        "" => ("false", String::new()),
        agent => ("true", format!(r#""agentId":"{agent}","#)),
    };
    format!(
        r#"{{"type":"user","uuid":"{session}{text}","sessionId":"{session}","isSidechain":{side},{agent}"timestamp":"2024-03-01T09:00:00Z","message":{{"role":"user","content":"{text}"}}}}"#
    ) + "\n"
}

fn keys(dir: &std::path::Path) -> Vec<String> {
    let listed = run("ls", dir, &["--keys", "--all"]).exits(0);
    let mut keys: Vec<_> = listed.lines().map(String::from).collect();
    keys.sort();
    keys
}

#[test]
fn a_session_of_claude_code_and_its_agents_files_are_sessions_of_their_own() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let tree = fixture.beside("projects");
    let agents = tree.join("p/s1/subagents");
    fs::create_dir_all(&agents).unwrap();
    fs::write(tree.join("p/s1.jsonl"), claude_line("s1", "", "main")).unwrap();
    for agent in ["a1", "a2"] {
        let path = agents.join(format!("agent-{agent}.jsonl"));
        fs::write(path, claude_line("s1", agent, agent)).unwrap();
    }
    let told = run("import", &dir, &[tree.to_str().unwrap()]).exits(0);
    assert!(told.contains("3 files, 3 messages imported"), "{told}");
    let all = [
        "claude-code:s1",
        "claude-code:s1:agent:a1",
        "claude-code:s1:agent:a2",
    ];
    assert_eq!(keys(&dir), all);
    for (key, text) in all.iter().zip(["main", "a1", "a2"]) {
        assert!(run("show", &dir, &[key]).exits(0).contains(text), "{key}");
    }
}

/// The records of an agent of Kimi Code to which the user says that, with a picture beside.
fn wire(text: &str) -> String {
    format!(
        r#"{{"type":"metadata","protocol_version":"1.5","created_at":1784455200000}}
{{"type":"context.append_message","message":{{"role":"user","content":[{{"type":"text","text":"{text}"}},{{"type":"image_url","imageUrl":{{"url":"blobref:image/png;0a1b"}}}}],"toolCalls":[],"origin":{{"kind":"user"}}}},"time":1784455201000}}
{{"type":"plan_mode.enter","id":"p","time":1784455202000}}
"#
    )
}

#[test]
fn sessions_of_kimi_code_come_with_their_agents_titles_times_and_pictures() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let tree = fixture.beside(".kimi-code").join("sessions");
    let states = [
        (
            "session_1",
            r#"{"version":2,"title":"Fix the parser","createdAt":1784455100000,"updatedAt":1784455300000,"agents":{}}"#,
        ),
        (
            "session_2",
            r#"{"title":"","createdAt":"2026-07-19T09:00:00.000Z","updatedAt":"2026-07-19T11:00:00.000Z"}"#,
        ),
    ];
    for (session, state) in states {
        let session = tree.join("wd_work_0a1b").join(session);
        for agent in ["main", "agent-0"] {
            let agent = session.join("agents").join(agent);
            fs::create_dir_all(agent.join("blobs")).unwrap();
            fs::write(agent.join("wire.jsonl"), wire("look")).unwrap();
        }
        fs::write(session.join("agents/main/blobs/0a1b"), "iVBORw0KGgo=").unwrap();
        fs::write(session.join("state.json"), state).unwrap();
        // Theirs, and no conversation.
        fs::create_dir(session.join("tasks")).unwrap();
        fs::write(session.join("tasks/1.json"), "{}").unwrap();
    }
    let told = run("import", &dir, &[tree.to_str().unwrap()]).exits(0);
    assert!(
        told.contains("Kimi Code: 4 files, 4 messages imported")
            && told
                .contains("left out, 1 times: a record \"plan_mode.enter\" (in 4 conversations)")
            && told.contains("whose file is not there (in 2 conversations)"),
        "{told}"
    );
    let main = "kimi-code:session_1";
    assert_eq!(
        keys(&dir),
        [
            main,
            "kimi-code:session_1:agent:agent-0",
            "kimi-code:session_2",
            "kimi-code:session_2:agent:agent-0"
        ]
    );
    let shown = run("show", &dir, &[main, "--json"]).exits(0);
    assert!(
        shown.contains("data:image/png;base64,iVBORw0KGgo="),
        "{shown}"
    );
    fixture.read(|chats| {
        let dates = |key: &str| {
            let meta = chats.session_meta(key).wait().unwrap();
            (meta.tags.title, meta.created_at, meta.updated_at)
        };
        let told = |title: &str, created: &str, updated: &str| {
            (title.into(), created.into(), updated.into())
        };
        assert_eq!(
            dates(main),
            told(
                "Fix the parser",
                "2026-07-19T09:58:20Z",
                "2026-07-19T10:01:40Z"
            )
        );
        let second = told("", "2026-07-19T09:00:00Z", "2026-07-19T11:00:00Z");
        assert_eq!(dates("kimi-code:session_2"), second);
    });
    // One of them, by its directory or its file.
    let one = tree.join("wd_work_0a1b/session_1");
    run("import", &dir, &[one.to_str().unwrap(), "--to", "k"]).exits(0);
    assert!(keys(&dir).contains(&"k:session_1".into()));
    let file = one.join("agents/main/wire.jsonl");
    let told = run("import", &dir, &[file.to_str().unwrap(), "--to", "file"]).exits(0);
    assert!(
        told.contains("1 message of Kimi Code imported to file"),
        "{told}"
    );
    assert!(
        run("show", &dir, &["file", "--json"])
            .exits(0)
            .contains("iVBORw0KGgo=")
    );
}

#[test]
fn what_kimi_cli_keeps_beside_a_conversation_is_passed_over() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let older = fixture.beside("kimi").join("session_0");
    fs::create_dir_all(&older).unwrap();
    let context = r#"{"role":"_system_prompt","content":"be"}
{"role":"user","content":"hi"}"#;
    let event = r#"{"timestamp":1.5,"message":{"type":"TurnBegin","payload":{"user_input":"hi"}}}"#;
    for (name, text) in [
        ("context.jsonl", context),
        ("wire.jsonl", event),
        ("state.json", "{}"),
    ] {
        fs::write(older.join(name), text).unwrap();
    }
    let told = run("import", &dir, &[older.to_str().unwrap()]).exits(0);
    assert!(
        told.contains("kimi-cli: 1 file, 1 message imported"),
        "{told}"
    );
}

#[test]
fn the_address_of_a_picture_of_kimi_code_leads_to_no_other_file() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let file = fixture.beside("wire.jsonl");
    fs::create_dir(fixture.beside("blobs")).unwrap();
    let secret = fixture.beside("secret");
    fs::write(&secret, "c2VjcmV0").unwrap();
    for address in [secret.to_str().unwrap(), "../secret", "..", ""] {
        let bad = wire("look").replace("png;0a1b", &format!("png;{address}"));
        fs::write(&file, bad).unwrap();
        run("import", &dir, &[file.to_str().unwrap(), "--to", "bad"]).exits(0);
    }
    let shown = run("show", &dir, &["bad", "--json"]).exits(0);
    assert!(
        !shown.contains("c2VjcmV0") && shown.contains("[media missing]"),
        "{shown}"
    );
}

#[test]
fn pictures_of_both_versions_of_kimi_code_are_read_and_only_from_regular_files() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let file = fixture.beside("wire.jsonl");
    let blob = fixture.beside("blobs").join("0a1b");
    fs::create_dir(fixture.beside("blobs")).unwrap();
    fs::write(&file, wire("look")).unwrap();
    let file = file.to_str().unwrap();
    for (stored, base64) in [
        (&b"iVBORw0KGgo=\n"[..], "iVBORw0KGgo="),
        (b"\x89PNG\r\n\x1a\n", "iVBORw0KGgo="),
        (b"\xff\xd8\xff\xe0\x00\x10", "/9j/4AAQ"),
        (b"\xff\xfe\xfd\xfc\xfb", "//79/Ps="),
    ] {
        fs::write(&blob, stored).unwrap();
        run("import", &dir, &[file, "--to", base64]).exits(0);
        let shown = run("show", &dir, &[base64, "--json"]).exits(0);
        let data = format!("data:image/png;base64,{base64}\"");
        assert!(shown.contains(&data), "{shown}");
    }
    // More than there may be: it is not even read.
    let long = fs::File::create(&blob).unwrap();
    long.set_len(1 << 40).unwrap();
    let refused = run("import", &dir, &[file, "--to", "long"]).fails();
    assert!(
        refused.contains("over 1 GiB with its pictures"),
        "{refused}"
    );
    #[cfg(unix)]
    {
        fs::remove_file(&blob).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &blob).unwrap();
        run("import", &dir, &[file, "--to", "link"]).exits(0);
        let shown = run("show", &dir, &["link", "--json"]).exits(0);
        assert!(shown.contains("[media missing]"), "{shown}");
    }
}

#[test]
fn a_directory_like_one_of_kimi_code_without_records_is_searched_as_any_other() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let tree = fixture.beside("tree");
    fs::create_dir_all(tree.join("agents/main")).unwrap();
    fs::write(tree.join("state.json"), "{}").unwrap();
    fs::write(tree.join("s1.jsonl"), claude_line("s1", "", "main")).unwrap();
    run("import", &dir, &[tree.to_str().unwrap()]).exits(1);
    assert_eq!(keys(&dir), ["claude-code:s1"]);
}

#[cfg(unix)]
#[test]
fn links_in_a_session_of_kimi_code_are_not_followed() {
    use std::os::unix::fs::symlink;
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let elsewhere = fixture.beside("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("wire.jsonl"), wire("elsewhere")).unwrap();
    let agents = fixture.beside("session_1").join("agents");
    for agent in ["main", "linked"] {
        fs::create_dir_all(agents.join(agent)).unwrap();
    }
    fs::write(agents.join("main/wire.jsonl"), wire("here")).unwrap();
    fs::write(fixture.beside("session_1/state.json"), "{}").unwrap();
    symlink(
        elsewhere.join("wire.jsonl"),
        agents.join("linked/wire.jsonl"),
    )
    .unwrap();
    symlink(&elsewhere, agents.join("other")).unwrap();
    // Kimi Code has written on elsewhere.
    fs::create_dir(fixture.beside("session_1/trees")).unwrap();
    let session = fixture.beside("session_1");
    let told = run("import", &dir, &[session.to_str().unwrap()]).exits(0);
    assert_eq!(keys(&dir), ["kimi-code:session_1"]);
    assert!(told.contains("moved this session to trees/"), "{told}");
}

#[test]
fn a_file_that_is_refused_in_part_says_what_of_it_was_imported() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let file = fixture.beside("s1.jsonl");
    let side = claude_line("s1", "a1", &"x".repeat(17 << 20));
    fs::write(&file, claude_line("s1", "", "main") + &side).unwrap();
    let refused = run("import", &dir, &[file.to_str().unwrap()]).fails();
    assert!(
        refused.contains("claude-code:s1:agent:a1: ")
            && refused.contains("not to be imported again: claude-code:s1\n"),
        "{refused}"
    );
    assert_eq!(keys(&dir), ["claude-code:s1"]);
}

#[cfg(not(feature = "sqlite"))]
#[test]
fn a_build_that_reads_no_database_says_how_to_get_one_that_does() {
    let fixture = Fixture::empty();
    let path = fixture.beside("agents.db");
    fs::write(&path, "SQLite format 3\0").unwrap();
    let refused = run("import", &fixture.dir(), &[path.to_str().unwrap()]).fails();
    assert!(
        refused.contains("cargo install sessionlog-cli"),
        "{refused}"
    );
    let help = crate::support::run_bare(&["import", "--help"]).exits(0);
    assert!(help.contains("This build reads no databases"), "{help}");
}

#[test]
fn one_conversation_that_the_store_refuses_does_not_end_the_import_of_a_tree() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let tree = fixture.beside("tree");
    fs::create_dir(&tree).unwrap();
    let message = |text: &str| format!("[{{\"role\":\"user\",\"content\":\"{text}\"}}]");
    fs::write(tree.join("a.json"), message(&"x".repeat(17 << 20))).unwrap();
    fs::write(tree.join("b.json"), message("after it")).unwrap();
    // More than a batch may be by default: imports may be longer.
    let long = format!(
        "{{\"role\":\"user\",\"content\":\"{}\"}}\n",
        "y".repeat(14 << 20)
    );
    fs::write(tree.join("c.jsonl"), long.repeat(5)).unwrap();
    let told = run("import", &dir, &[tree.to_str().unwrap()]).exits(1);
    assert!(
        told.contains("a.json: left as it is") && told.contains("over the limit"),
        "{told}"
    );
    assert_eq!(keys(&dir), ["jsonl:c", "openai:b"]);
}

#[test]
fn the_next_import_of_a_tree_completes_what_one_that_was_cut_short_began() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let tree = fixture.beside("tree");
    fs::create_dir(&tree).unwrap();
    let (main, side) = (
        claude_line("s1", "", "main"),
        claude_line("s1", "a1", "aside"),
    );
    let file = tree.join("s1.jsonl");
    fs::write(&file, &main).unwrap();
    let tree = tree.to_str().unwrap();
    run("import", &dir, &[tree]).exits(0);
    fs::write(&file, main + &side).unwrap();
    let told = run("import", &dir, &[tree]).exits(1);
    assert!(
        told.contains("1 message imported") && told.contains("claude-code:s1 has messages already"),
        "{told}"
    );
    assert_eq!(keys(&dir), ["claude-code:s1", "claude-code:s1:agent:a1"]);
    let shown = json(&run("show", &dir, &["claude-code:s1", "--json"]).exits(0));
    assert_eq!(shown.len(), 1);
}

#[test]
fn sessions_of_different_channels_stay_apart_below_a_prefix() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let tree = fixture.beside("tree");
    fs::create_dir(&tree).unwrap();
    for channel in ["telegram", "slack"] {
        let session =
            format!(r#"{{"key":"{channel}:1","messages":[{{"role":"user","content":"hi"}}]}}"#);
        fs::write(tree.join(format!("{channel}.json")), session).unwrap();
    }
    fs::write(tree.join("s1.jsonl"), claude_line("s1", "", "main")).unwrap();
    run("import", &dir, &[tree.to_str().unwrap(), "--to", "X"]).exits(0);
    assert_eq!(keys(&dir), ["X:s1", "X:slack:1", "X:telegram:1"]);
}

#[test]
fn a_benchmark_leaves_nothing_behind() {
    let fixture = Fixture::new();
    let (dir, before) = (fixture.dir(), fixture.files());
    let args = ["--time", "200ms", "--chats", "4", "--json"];
    let figures = json(&run("bench", &dir, &args).exits(0));
    assert!(figures[0]["appends"].as_u64().unwrap() > 0);
    assert!(
        figures[0]["bare_sync_latency"]["median_us"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    assert!(fixture.files() == before);
}

/// A directory as a power cut leaves it: sixty sessions that were flushed once, and a message of
/// each that only the journal tells of. Damage hits one of these.
fn with_a_damaged_segment(fixture: &Fixture) -> std::path::PathBuf {
    let keys: Vec<String> = (0..60).map(|n| format!("chat:{n:02}")).collect();
    fixture.write(|chats| {
        for key in &keys {
            chats.add_message(key, "user", "early").wait().unwrap();
        }
    });
    let store = Store::open(fixture.dir()).unwrap();
    for key in &keys {
        let late = format!("late in {key}");
        store
            .handle()
            .add_message(key, "user", &late)
            .wait()
            .unwrap();
    }
    let crashed = fixture.beside("crashed");
    copy(&fixture.dir(), &crashed);
    drop(store);
    let segments = fs::read_dir(crashed.join(".sessionlog/journal")).unwrap();
    let mut damaged = 0;
    for path in segments.map(|entry| entry.unwrap().path()) {
        let mut bytes = fs::read(&path).unwrap();
        let text = b"late in chat:20";
        if let Some(at) = bytes.windows(text.len()).position(|found| found == text) {
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1);
    crashed
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = {
            let entry = entry.unwrap();
            (entry.path(), to.join(entry.file_name()))
        };
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

#[test]
fn a_damaged_segment_is_one_fault_and_costs_what_repair_says() {
    let fixture = Fixture::empty();
    let dir = with_a_damaged_segment(&fixture);
    let found = run("verify", &dir, &[]).exits(1);
    assert!(found.lines().count() < 10, "{found}");
    assert!(
        found.contains("1 fault") && found.contains("chat:00"),
        "{found}"
    );
    let repair = format!("next: sessionlog repair {}", dir.display());
    assert!(found.contains(&repair), "{found}");
    let found = json(&run("verify", &dir, &["--json"]).exits(1)).remove(0);
    let faults = found["faults"].as_array().unwrap();
    assert_eq!(faults.len(), 1, "{faults:#?}");
    let losses = &faults[0]["losses"];
    assert!(
        losses[0].as_str().unwrap().contains("journal batch"),
        "{losses}"
    );
    let left = json(&run("repair", &dir, &["--json"]).exits(1)).remove(0);
    assert_eq!(&left["needs_data_loss"], losses);
    let text = run("repair", &dir, &["--allow-data-loss"]).exits(1);
    assert!(text.contains("sessions concerned: chat:"), "{text}");
    for loss in losses.as_array().unwrap() {
        assert!(text.contains(loss.as_str().unwrap()), "{loss}: {text}");
    }
    run("verify", &dir, &[]).exits(0);
}

#[test]
fn a_backup_is_restored_checked_and_over_nothing() {
    let fixture = Fixture::new();
    let (dir, backup) = (fixture.dir(), fixture.beside("backup"));
    let [backup_arg, dir_arg] = [&backup, &dir].map(|path| path.to_str().unwrap());
    run("backup", &dir, &[backup_arg]).exits(0);
    let store = Store::open(&dir).unwrap();
    let used = run("restore", &backup, &[dir_arg]).fails();
    assert!(
        used.contains("in use by process") && used.contains("mv "),
        "{used}"
    );
    store.close().unwrap();
    let before = fixture.files();
    assert!(
        run("restore", &backup, &[dir_arg])
            .fails()
            .contains("not empty")
    );
    assert!(fixture.files() == before);

    let place = fixture.beside("restored");
    let told = run("restore", &backup, &[place.to_str().unwrap()]).exits(0);
    assert!(
        told.contains("3 sessions restored") && told.contains("sound"),
        "{told}"
    );
    let shown = |dir: &std::path::Path| run("show", dir, &[SEVEN, "--json"]).exits(0);
    assert_eq!(shown(&place), shown(&dir));
    Store::open(&place).unwrap().close().unwrap();
    let refused = run("backup", &dir, &[place.to_str().unwrap()]).fails();
    assert!(refused.contains("opened as a store"), "{refused}");

    let log = backup.join(format!("{}.jsonl", EIGHT.replace(':', "_")));
    let mut bytes = fs::read(&log).unwrap();
    bytes.extend_from_slice(b"damaged\n");
    fs::write(&log, bytes).unwrap();
    let other = fixture.beside("other");
    let other_arg = other.to_str().unwrap();
    let refused = run("restore", &backup, &[other_arg]).fails();
    assert!(
        refused.contains("1 fault") && refused.contains("verify"),
        "{refused}"
    );
    assert!(!other.exists());
    let told = run("restore", &backup, &[other_arg, "--allow-damage", "--json"]).exits(1);
    assert_eq!(json(&told)[0]["sound"], false);
}

#[test]
fn an_alias_stands_for_a_hash_in_every_text() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let key = format!("sk_v1_{}", "ab".repeat(32));
    fixture.write(|chats| {
        chats.add_message(&key, "user", "needle").wait().unwrap();
        let aliases = vec![String::from("telegram:7")];
        chats
            .upsert_session_meta(&key, None, aliases)
            .wait()
            .unwrap();
    });
    for (verb, args) in [
        ("ls", vec![]),
        ("search", vec!["needle"]),
        ("search", vec!["needle", "-l"]),
        ("search", vec!["needle", "--count"]),
        ("tail", vec![]),
        ("retention", vec!["--count", "0", "--with-main"]),
    ] {
        let text = run(verb, &dir, &args).exits(0);
        assert!(
            text.contains("telegram:7") && !text.contains(&key),
            "{verb}: {text}"
        );
    }
    assert_eq!(run("ls", &dir, &["--keys"]).exits(0), format!("{key}\n"));
    let message = "{\"role\":\"user\",\"content\":\"one\"}\n";
    let to = ["-", "--format", "jsonl", "--to", "telegram:7"];
    let told = run_with("import", &dir, &to, message).exits(0);
    assert_eq!(told, "1 message imported to telegram:7\n");
    for (verb, args, shown) in [
        (
            "title",
            vec!["telegram:7", "Oslo"],
            "telegram:7 is called Oslo\n",
        ),
        ("delete", vec!["telegram:7"], "deleted telegram:7\n"),
        ("undelete", vec!["telegram:7"], "telegram:7 is back\n"),
    ] {
        assert_eq!(run(verb, &dir, &args).exits(0), shown);
    }
    let log = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let log = log.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    for path in log {
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(b"damaged\n");
        fs::write(&path, bytes).unwrap();
    }
    for (verb, code) in [("verify", 1), ("repair", 0)] {
        let text = run(verb, &dir, &[]).exits(code);
        assert!(text.contains("telegram:7: "), "{verb}: {text}");
        // Files are named by it.
        let mut lines = text.lines().filter(|line| !line.contains(".jsonl"));
        assert!(lines.all(|line| !line.contains(&key)), "{verb}: {text}");
    }
    let receipt = run("erase", &dir, &["--session", "telegram:7", "--yes"]);
    assert!(
        receipt.out.contains("erased telegram:7\n"),
        "{}",
        receipt.out
    );
    receipt.exits(0);
}

#[test]
fn a_message_is_edited_and_removed_by_its_number_and_found_as_it_was_until_a_compaction() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    fixture.write(|chats| {
        let call = Message::assistant("Olso?").with_tool_call("c1", "find", "{}");
        let said = vec![Message::user("one"), call, Message::user("three")];
        chats.append_all("web:1", said).wait().unwrap();
    });
    let numbered = run("show", &dir, &["web:1", "--numbers", "-n", "2"]).exits(0);
    assert!(
        numbered.contains("assistant  #2  ") && numbered.contains("user  #3  "),
        "{numbered}"
    );
    let time = json(&run("show", &dir, &["web:1", "--json"]).exits(0))[1]["created_at"].clone();
    let told = run("edit", &dir, &["web:1", "2", "Oslo?"]).exits(0);
    assert_eq!(
        told,
        "message 2 of web:1 was assistant: Olso?\nand is assistant: Oslo?\n"
    );
    let told = run("remove", &dir, &["web:1", "3"]).exits(0);
    assert_eq!(told, "message 3 of web:1 was user: three\nand is removed\n");
    let whole = r#"{"role":"user","content":"uno","mine":1}"#;
    run_with("edit", &dir, &["web:1", "1", "-", "--as-json"], whole).exits(0);
    let now = json(&run("show", &dir, &["web:1", "--json"]).exits(0));
    assert_eq!(
        (now.len(), &now[0]["content"], &now[0]["mine"]),
        (2, &"uno".into(), &1.into())
    );
    // Its tool call and its time stayed.
    assert_eq!(
        (
            &now[1]["content"],
            &now[1]["tool_calls"][0]["id"],
            &now[1]["created_at"]
        ),
        (&"Oslo?".into(), &"c1".into(), &time)
    );
    for was in ["one", "Olso", "three"] {
        run("search", &dir, &[was]).exits(1);
        let found = run("search", &dir, &[was, "--archived"]).exits(0);
        assert!(found.contains("(hidden)"), "{found}");
    }
    run("compact", &dir, &["web:1"]).exits(0);
    run("search", &dir, &["Olso", "--archived"]).exits(1);
    let err = run("edit", &dir, &["web:1", "3", "x"]).fails();
    assert!(
        err.contains("2 messages") && err.contains("--numbers"),
        "{err}"
    );
    run("remove", &dir, &["web:1", "0"]).fails();
    run("remove", &dir, &["web:", "1"]).fails();
}

#[test]
fn a_text_takes_no_picture_s_place() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let picture = r#"{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"https://example.com/x"}}]}"#;
    fixture.write(|chats| {
        let message = Message::from_json(picture.as_bytes()).unwrap();
        chats.append_all("web:1", vec![message]).wait().unwrap();
    });
    let before = run("show", &dir, &["web:1", "--json"]).exits(0);
    let err = run("edit", &dir, &["web:1", "1", "look"]).fails();
    assert!(err.contains("--as-json"), "{err}");
    assert_eq!(run("show", &dir, &["web:1", "--json"]).exits(0), before);
}

#[test]
fn an_older_directory_takes_no_other_keys_and_says_how_it_would() {
    let scratch = tempfile::tempdir().unwrap();
    let older = scratch.path().join("older");
    fs::create_dir(&older).unwrap();
    let session = r#"{"key":"telegram:7","messages":[{"role":"user","content":"hi"}]}"#;
    fs::write(older.join("telegram_7.json"), session).unwrap();
    let (dir, source) = (scratch.path().join("sessions"), older.to_str().unwrap());
    let to = ["--to", "old"];
    let args = [&[source, "--format", "picoclaw"], &to[..]].concat();
    let err = run("import", &dir, &args).fails();
    assert!(err.contains("--to does not go with them"), "{err}");
    assert!(!dir.exists() && older.join("telegram_7.json").exists());
    // What it proposes in place of that is true.
    run("import", &dir, &[&[source], &to[..]].concat()).exits(0);
    assert!(older.join("telegram_7.json").exists());
    assert_eq!(keys(&dir), ["old:telegram:7"]);
}

#[test]
fn a_chat_gets_another_key_and_is_put_before_what_that_has() {
    let fixture = Fixture::new();
    let dir = fixture.dir();
    let told = run("rename", &dir, &[SEVEN, "telegram:-1007"]).exits(0);
    assert!(told.contains("is now telegram:-1007"), "{told}");
    let shown = run("show", &dir, &[SEVEN]).exits(0);
    assert!(shown.contains("invoice of May"), "{shown}");
    let refused = run("rename", &dir, &["telegram:-1007", EIGHT]).fails();
    assert!(refused.contains("--merge"), "{refused}");
    let told = run("rename", &dir, &["telegram:-1007", EIGHT, "--merge"]).exits(0);
    assert!(told.contains("before what was said"), "{told}");
    let shown = run("show", &dir, &[EIGHT]).exits(0);
    assert!(
        shown.find("invoice of May") < shown.find("  hi\n"),
        "{shown}"
    );
    run("rename", &dir, &["nobody", "x"]).fails();
    run("verify", &dir, &[]).exits(0);
}

#[test]
fn a_deleted_session_is_kept_and_comes_back_unless_it_is_to_be_gone() {
    let fixture = Fixture::new();
    let dir = fixture.dir();
    let before = run("show", &dir, &[SEVEN]).exits(0);
    run("delete", &dir, &[SEVEN, "nobody"]).fails();
    run("delete", &dir, &[&SEVEN[..SEVEN.len() - 1]]).fails();
    assert_eq!(run("show", &dir, &[SEVEN]).exits(0), before);

    run("delete", &dir, &[SEVEN]).exits(0);
    let told = run("show", &dir, &[SEVEN]).fails();
    assert!(told.contains("in the trash"), "{told}");
    let found = run("search", &dir, &["invoice", "--deleted"]).exits(0);
    assert!(found.contains("invoice of May"), "{found}");
    let listed = run("ls", &dir, &[]).exits(0);
    assert!(!listed.contains(SEVEN), "{listed}");
    let kept = json(&run("ls", &dir, &["--deleted", "--json"]).exits(0));
    assert_eq!((kept.len(), &kept[0]["deleted"]["key"]), (1, &SEVEN.into()));
    let key = kept[0]["key"].as_str().unwrap();
    let stat = json(&run("stat", &dir, &["--json"]).exits(0));
    assert_eq!(
        (&stat[0]["sessions"], &stat[0]["in_trash"]),
        (&2.into(), &1.into())
    );
    let shown = run("show", &dir, &[key]).exits(0);
    assert_eq!(
        shown.split_once('\n').unwrap().1,
        before.split_once('\n').unwrap().1
    );
    let found = run("search", &dir, &["invoice", "--session", key]).exits(0);
    assert!(found.contains("invoice of May"), "{found}");
    let told = run("undelete", &dir, &[SEVEN]).exits(0);
    assert_eq!(told, format!("{SEVEN} is back\n"));
    assert_eq!(run("show", &dir, &[SEVEN]).exits(0), before);
    run("ls", &dir, &["--deleted"]).exits(1);
    let none = run("undelete", &dir, &[SEVEN]).fails();
    assert!(none.contains("ls DIR --deleted"), "{none}");

    run("delete", &dir, &[SEVEN, "--for-good"]).exits(0);
    run("ls", &dir, &["--deleted"]).exits(1);
    run("delete", &dir, &[EIGHT]).exits(0);
    let plan = run("retention", &dir, &["--deleted", "30d"]).exits(0);
    assert!(plan.contains("0 sessions"), "{plan}");
    let receipt = run("erase", &dir, &["--session", EIGHT, "--yes"]).exits(0);
    assert!(receipt.contains(EIGHT), "{receipt}");
    run("ls", &dir, &["--deleted"]).exits(1);
}

#[test]
fn a_title_and_labels_are_seen_in_lists_and_found() {
    let fixture = Fixture::new();
    let dir = fixture.dir();
    let told = run("title", &dir, &[SEVEN, " Oslo in May "]).exits(0);
    assert_eq!(told, format!("{SEVEN} is called Oslo in May\n"));
    let labels = run("label", &dir, &[SEVEN, "travel", "open", "travel", "--pin"]).exits(0);
    assert_eq!(labels, "travel\nopen\n");
    let listed = run("ls", &dir, &["--label", "travel", "--pinned"]).exits(0);
    assert!(listed.contains("[travel] [open] Oslo in May"), "{listed}");
    assert!(!listed.contains(EIGHT), "{listed}");
    let stat = run("stat", &dir, &[SEVEN]).exits(0);
    for row in ["title", "Oslo in May", "label", "travel", "pinned"] {
        assert!(stat.contains(row), "{row}: {stat}");
    }
    assert_eq!(
        run("label", &dir, &[SEVEN, "--remove", "open"]).exits(0),
        "travel\n"
    );
    run("ls", &dir, &["--label", "open"]).exits(1);
    run("label", &dir, &[SEVEN, "--remove", "travel", "--unpin"]).exits(0);
    run("ls", &dir, &["--pinned"]).exits(1);
    let told = run("title", &dir, &[SEVEN, ""]).exits(0);
    assert!(told.ends_with("has no title\n"), "{told}");
    run("title", &dir, &["nobody", "x"]).fails();
    // The beginning of a key is not enough for what changes a session.
    let part = &SEVEN[..SEVEN.len() - 1];
    for (verb, more) in [("title", "x"), ("label", "x"), ("rename", "other")] {
        run(verb, &dir, &[part, more]).fails();
    }
}
