//! Verbs that read.

use sessionlog::Message;

use crate::support::{EIGHT, Fixture, HOSTILE, SEVEN, json, run};

#[test]
fn a_session_is_found_by_key_alias_and_the_beginning_of_either() {
    let fixture = Fixture::new();
    let dir = fixture.dir();
    for name in [SEVEN, "web:evil", "web:nickname", "web:e", "web:nick"] {
        let shown = run("show", &dir, &[name]).exits(0);
        let is_seven = name == SEVEN;
        assert_eq!(shown.contains("invoice of May"), is_seven, "{name}");
    }
}

#[test]
fn a_name_that_may_be_several_sessions_lists_them_and_shows_none() {
    let fixture = Fixture::new();
    let err = run("show", &fixture.dir(), &["agent:main"]).fails();
    assert!(err.contains(SEVEN) && err.contains(EIGHT), "{err}");
    let err = run("show", &fixture.dir(), &["direct:7"]).fails();
    assert!(err.contains("no session") && err.contains(SEVEN), "{err}");
}

#[test]
fn an_alias_stands_for_a_hash_in_errors_and_among_the_sessions_that_may_be_meant() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let hash = |byte: &str| format!("sk_v1_{}", byte.repeat(32));
    fixture.write(|chats| {
        for (byte, chat) in [("ab", 7), ("ac", 8)] {
            let key = hash(byte);
            chats.add_message(&key, "user", "hi").wait().unwrap();
            let aliases = [
                "agent:main:main",
                &format!("web:{chat}"),
                &format!("telegram:{chat}"),
            ];
            let aliases = aliases.map(String::from).to_vec();
            let meta = chats.upsert_session_meta(&key, None, aliases);
            meta.wait().unwrap();
        }
        let key = hash("ad");
        chats.add_message(&key, "user", "hi").wait().unwrap();
        chats.set_title(&key, "Trains").wait().unwrap();
    });
    // Each is shown by the alias that is like what was given.
    for (given, shown) in [
        ("telegram:", "\n  telegram:7\n  telegram:8\n"),
        ("sk_v1_a", "\n  web:7\n  web:8\n"),
        ("gram:8", "in their keys or aliases:\n  telegram:8\n"),
    ] {
        let err = run("show", &dir, &[given]).fails();
        assert!(err.contains(shown), "{given}: {err}");
        assert!(
            !err.contains(&hash("ab")) && !err.contains(&hash("ac")),
            "{err}"
        );
    }
    let err = run("show", &dir, &["sk_v1_a"]).fails();
    assert!(
        err.contains(&format!("\n  {} (Trains)\n", hash("ad"))),
        "{err}"
    );
    for (verb, args) in [
        ("title", vec!["telegram:", "x"]),
        ("rename", vec!["telegram:7", "telegram:8"]),
        ("delete", vec![&hash("ab")[..12]]),
        ("erase", vec!["--session", "teleg", "--yes"]),
    ] {
        let err = run(verb, &dir, &args).fails();
        assert!(
            !err.contains(&hash("ab")) && !err.contains(&hash("ac")),
            "{verb}: {err}"
        );
    }
    let refused = run("rename", &dir, &["telegram:7", &hash("ac")]).fails();
    assert!(
        refused.contains("session \"web:8\" has a history"),
        "{refused}"
    );
    let told = run("rename", &dir, &["telegram:7", "other"]).exits(0);
    assert_eq!(told, "web:7 is now other\n");
}

#[test]
fn nothing_found_exits_with_1_and_a_wrong_command_with_2() {
    let fixture = Fixture::new();
    let dir = fixture.dir();
    for (verb, args) in [
        ("search", vec!["no such text"]),
        ("ls", vec!["--prefix", "none"]),
        ("ls", vec!["--person", "nobody"]),
        ("archive list", vec![SEVEN]),
    ] {
        run(verb, &dir, &args).exits(1);
    }
    assert!(
        run("ls", &fixture.beside("none"), &[])
            .fails()
            .contains("no directory")
    );
    assert!(
        run("search", &dir, &["[", "-E"])
            .fails()
            .contains("without -E")
    );
    assert!(
        run("ls", &dir, &["--since", "soon"])
            .fails()
            .contains("yesterday")
    );
    assert!(!fixture.beside("none").exists());
}

#[test]
fn a_transcript_folds_tools_and_reasoning_unless_asked_for_all() {
    let fixture = Fixture::new();
    let short = run("show", &fixture.dir(), &[SEVEN]).exits(0);
    assert!(
        short.contains(r#"calls find({"what":"invoice"})"#),
        "{short}"
    );
    assert!(
        short.contains("first line second line third line"),
        "{short}"
    );
    let full = run("show", &fixture.dir(), &[SEVEN, "--full"]).exits(0);
    assert!(
        full.contains("\"what\": \"invoice\"") && full.contains("\n  second line\n"),
        "{full}"
    );
    let last = run("show", &fixture.dir(), &[SEVEN, "-n", "1"]).exits(0);
    assert!(
        last.contains("In the drawer.") && !last.contains("calls find"),
        "{last}"
    );
}

#[test]
fn what_a_terminal_would_obey_is_written_out_and_kept_in_json() {
    let fixture = Fixture::new();
    let dir = fixture.dir();
    for (verb, args) in [
        ("show", vec!["web:evil"]),
        ("tail", vec!["web:evil"]),
        ("tail", vec![]),
        ("search", vec!["look"]),
        ("ls", vec![]),
        ("top", vec!["--once"]),
        ("stat", vec!["web:evil"]),
    ] {
        let shown = run(verb, &dir, &args).exits(0);
        let orders = ['\x1b', '\x07', '\u{9b}', '\u{202e}', '\r'];
        assert!(!shown.contains(orders), "{verb}: {shown:?}");
        if verb != "stat" {
            assert!(shown.contains("\\x1b[2J"), "{verb}: {shown}");
        }
    }
    let text = format!("look {HOSTILE} here");
    let shown = json(&run("show", &dir, &["web:evil", "--json"]).exits(0));
    assert_eq!(shown[0]["content"], *text);
    let found = json(&run("search", &dir, &["look", "--json"]).exits(0));
    assert_eq!(found[0]["message"]["content"], *text);
    let raw = run("export", &dir, &["web:evil", "--format", "markdown"]).exits(0);
    assert!(raw.contains('\x1b'), "{raw:?}");
}

#[test]
fn sessions_are_listed_by_person_time_and_size() {
    let fixture = Fixture::new();
    let keys = |args: &[&str]| -> Vec<String> {
        let out = run("ls", &fixture.dir(), &[args, &["--keys"]].concat()).exits(0);
        out.lines().map(str::to_owned).collect()
    };
    assert_eq!(keys(&["--person", "7"]), [SEVEN]);
    assert_eq!(keys(&["--person", "7", "--since", "yesterday"]), [SEVEN]);
    assert_eq!(keys(&["--sort", "size", "-n", "1"]), [SEVEN]);
    assert_eq!(keys(&["--sort", "name"]), [SEVEN, EIGHT, "web:evil"]);
    assert_eq!(keys(&["--sort", "name", "-n", "2"]), [SEVEN, EIGHT]);
    assert_eq!(keys(&["--sort", "name", "--prefix", "web"]), ["web:evil"]);
    assert_eq!(
        keys(&["--sort", "created", "--reverse"]),
        [SEVEN, EIGHT, "web:evil"]
    );
    assert_eq!(keys(&[])[0], "web:evil");
    // The key web:evil does not say that it is a person's.
    let none = run("ls", &fixture.dir(), &["--person", "evil"]);
    assert!(
        none.err.contains("in their keys:\n  web:evil"),
        "{}",
        none.err
    );
    none.exits(1);
    let late = run(
        "ls",
        &fixture.dir(),
        &["--person", "7", "--since", "2100-01-01"],
    );
    assert!(!late.err.contains("in their keys"), "{}", late.err);
    late.exits(1);
    let all = json(&run("ls", &fixture.dir(), &["--json"]).exits(0));
    assert_eq!(all[0]["aliases"][0], "web:nickname");
}

#[test]
fn a_search_says_where_in_which_role_and_how_often() {
    let fixture = Fixture::new();
    let dir = fixture.dir();
    let found = run("search", &dir, &["INVOICE", "-i"]).exits(0);
    assert!(found.starts_with(&format!("{SEVEN}:2")), "{found}");
    assert!(
        found.contains(":user: Where is the invoice of May?"),
        "{found}"
    );
    run("search", &dir, &["invoice", "--role", "assistant"]).exits(1);
    run("search", &dir, &["invoice", "--session", EIGHT]).exits(1);
    run("search", &dir, &["invoice", "--until", "yesterday"]).exits(1);
    run("search", &dir, &["invoice", "--person", "8"]).exits(1);
    let counted = run("search", &dir, &["-E", "h[ei]", "-c"]).exits(0);
    assert_eq!(counted.lines().count(), 3, "{counted}");
    let listed = run("search", &dir, &["hi", "-l"]).exits(0);
    assert_eq!(listed, format!("{SEVEN}\n{EIGHT}\n"));
}

#[test]
fn a_search_finds_tools_titles_and_summaries_if_asked_to() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    fixture.write(|chats| {
        let call = Message::assistant("").with_tool_call("c1", "find", r#"{"what":"drawer"}"#);
        chats.append_all("web:1", vec![call]).wait().unwrap();
        chats.set_title("web:1", "Lost papers").wait().unwrap();
        chats
            .set_summary("web:1", "They sought paper.")
            .wait()
            .unwrap();
    });
    for (text, option, place) in [
        (
            "drawer",
            "--tool-calls",
            ":assistant (calls find): {\"what\":\"drawer\"}",
        ),
        ("find", "--tool-calls", ":assistant (calls): find"),
        ("Lost", "--summaries", "web:1:title: Lost papers"),
        ("sought", "--summaries", "web:1:summary: They sought paper."),
    ] {
        run("search", &dir, &[text]).exits(1);
        let found = run("search", &dir, &[text, option]).exits(0);
        assert!(found.ends_with(&format!("{place}\n")), "{found}");
    }
    let found = run("search", &dir, &["drawer", "--tool-calls", "--json"]).exits(0);
    let found = &json(&found)[0];
    assert_eq!(
        (&found["found_in"], &found["call"], &found["matched"]),
        (&"tool_arguments".into(), &0.into(), &vec![9, 15].into())
    );
    // A summary is of nobody.
    run("search", &dir, &["sought", "--summaries", "--role", "user"]).exits(1);
}

#[test]
fn who_only_reads_writes_nothing() {
    let fixture = Fixture::new();
    let (dir, before) = (fixture.dir(), fixture.files());
    for (verb, args) in [
        ("ls", vec![]),
        ("show", vec![SEVEN]),
        ("tail", vec![]),
        ("search", vec!["hi"]),
        ("stat", vec![]),
        ("stat", vec![SEVEN]),
        ("top", vec!["--once"]),
        ("verify", vec![]),
        ("export", vec![SEVEN]),
        ("retention", vec!["--count", "1"]),
    ] {
        run(verb, &dir, &args).exits(0);
    }
    assert!(fixture.files() == before);
}

#[test]
fn what_is_exported_can_be_imported() {
    let fixture = Fixture::new();
    let texts = |key: &str| {
        fixture.read(|chats| {
            let history = chats.history(key).wait().unwrap();
            history
                .iter()
                .map(|one| one.text().into_owned())
                .collect::<Vec<_>>()
        })
    };
    for format in ["jsonl", "openai", "anthropic"] {
        let file = fixture.beside(format);
        let file = file.to_str().unwrap();
        run(
            "export",
            &fixture.dir(),
            &[SEVEN, "--format", format, "-o", file],
        )
        .exits(0);
        run(
            "export",
            &fixture.dir(),
            &[SEVEN, "--format", format, "-o", file],
        )
        .fails();
        let key = format!("copy:{format}");
        run(
            "import",
            &fixture.dir(),
            &[file, "--format", format, "--to", &key],
        )
        .exits(0);
        assert_eq!(texts(&key), texts(SEVEN), "{format}");
    }
    let kimi = fixture.beside("context.jsonl");
    let kimi = kimi.to_str().unwrap();
    run(
        "export",
        &fixture.dir(),
        &[SEVEN, "--format", "kimi", "-o", kimi],
    )
    .exits(0);
    run(
        "import",
        &fixture.dir(),
        &[kimi, "--format", "kimi", "--to", "copy:kimi"],
    )
    .exits(0);
    assert_eq!(texts("copy:kimi"), texts(SEVEN));
    let err = run(
        "import",
        &fixture.dir(),
        &[kimi, "--format", "kimi", "--to", "copy:kimi"],
    )
    .fails();
    assert!(err.contains("--to"), "{err}");
    let picoclaw = fixture.beside("picoclaw");
    let args = ["--format", "picoclaw", "-o", picoclaw.to_str().unwrap()];
    run("export", &fixture.dir(), &args).exits(0);
    let keys = run("ls", &picoclaw, &["--keys", "--all"]).exits(0);
    assert_eq!(keys.lines().count(), 7, "{keys}");
}

#[test]
fn sessions_are_ordered_by_when_they_changed_however_that_is_written() {
    let dir = tempfile::tempdir().unwrap();
    // The oldest first.
    let times = [
        "2026-11-20T10:00:00+09:00",
        "2026-11-20T05:00:00Z",
        "2026-11-20T05:00:00.5Z",
    ];
    for (n, time) in times.iter().enumerate() {
        let meta = serde_json::json!({
            "key": format!("a:{n}"), "summary": "", "skip": 0, "count": 0,
            "created_at": time, "updated_at": time,
        });
        let sidecar = dir.path().join(format!("a_{n}.meta.json"));
        std::fs::write(sidecar, meta.to_string()).unwrap();
    }
    for (args, order) in [
        (vec![], "a:2 a:1 a:0"),
        (vec!["--reverse"], "a:0 a:1 a:2"),
        (vec!["--sort", "created"], "a:2 a:1 a:0"),
    ] {
        let keys = run("ls --keys", dir.path(), &args).exits(0);
        let keys: Vec<_> = keys.lines().collect();
        assert_eq!(keys.join(" "), order, "{args:?}");
    }
}

#[test]
fn a_session_file_without_a_sidecar_is_listed_and_searched_under_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let line = r#"{"role":"user","content":"needle"}"#;
    std::fs::write(dir.path().join("cli.jsonl"), format!("{line}\n")).unwrap();
    assert_eq!(run("ls --keys", dir.path(), &[]).exits(0), "cli\n");
    let found = run("search", dir.path(), &["needle", "--session", "cli"]).exits(0);
    assert!(found.contains("needle"), "{found}");
}

fn with_damage() -> Fixture {
    let fixture = Fixture::new();
    fixture.write(|chats| {
        for text in ["one", "two", "three"] {
            chats.add_message("web:torn", "user", text).wait().unwrap();
        }
    });
    let path = fixture.dir().join("web_torn.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(1, "{\"role\":\"user\",\"cont\0\0\0");
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    fixture
}

#[test]
fn damaged_lines_are_marked_where_they_stand_and_what_leaves_them_out_exits_with_1() {
    let fixture = with_damage();
    let dir = fixture.dir();
    for verb in ["show", "tail"] {
        let shown = run(verb, &dir, &["web:torn"]).exits(1);
        let places = ["one", "1 damaged line", "two", "three"].map(|what| shown.find(what));
        assert!(places.is_sorted() && places[0].is_some(), "{shown}");
        let shown = run(verb, &dir, &["web:torn", "-n", "2"]).exits(0);
        assert!(!shown.contains("damaged"), "{shown}");
        let lines = run(verb, &dir, &["web:torn", "--json"]).exits(1);
        assert_eq!(json(&lines).len(), 3);
    }
    let shown = run("tail", &dir, &[]).exits(1);
    assert!(shown.contains("1 damaged line"), "{shown}");
    // It does not stand among those that are shown.
    run("tail", &dir, &["-n", "2"]).exits(0);
    run("tail", &dir, &["web:torn", "--pinned"]).fails();
}

#[test]
fn a_part_of_a_conversation_is_shown_by_number_and_by_time() {
    let fixture = Fixture::empty();
    fixture.write(|chats| {
        for n in 1..=9 {
            let time = format!("2026-11-0{n}T12:00:00Z");
            let message = Message::user(n.to_string()).with_created_at(&time).unwrap();
            chats.append_all("web:long", vec![message]).wait().unwrap();
        }
    });
    let part = |args: &[&str]| {
        let args = [&["web:long", "--json"], args].concat();
        let shown = run("show", &fixture.dir(), &args).exits(0);
        let texts = json(&shown).into_iter();
        texts
            .map(|one| one["content"].as_str().unwrap().to_owned())
            .collect::<String>()
    };
    assert_eq!(part(&["--range", "2..4"]), "234");
    assert_eq!(part(&["--range", "..3"]), "123");
    assert_eq!(part(&["--range", "8.."]), "89");
    assert_eq!(part(&["--last", "2"]), "89");
    assert_eq!(part(&["--since", "2026-11-03T12:00:00Z"]), "3456789");
    let range = [
        "--since",
        "2026-11-03T12:00:00Z",
        "--until",
        "2026-11-06T12:00:00Z",
    ];
    assert_eq!(part(&range), "345");
    assert_eq!(part(&[&range[..], &["-n", "2"]].concat()), "45");
    let dir = fixture.dir();
    run("show", &dir, &["web:long", "--until", "2020-01-01"]).exits(1);
    run("show", &dir, &["web:long", "--range", "4..2"]).exits(2);
}

#[test]
fn an_empty_store_and_a_path_that_is_none_say_so() {
    let fixture = Fixture::empty();
    fixture.write(|_| {});
    let empty = run("ls", &fixture.dir(), &[]);
    assert!(
        empty.err.contains("the store has no session"),
        "{}",
        empty.err
    );
    empty.exits(1);
    let other = fixture.beside("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("notes.txt"), "none").unwrap();
    for (verb, args) in [
        ("ls", vec![]),
        ("search", vec!["x"]),
        ("show", vec!["x"]),
        ("stat", vec![]),
    ] {
        let err = run(verb, &other, &args).fails();
        assert!(err.contains("no sessions in"), "{verb}: {err}");
    }
}

#[test]
fn a_list_for_scripts_is_complete() {
    let fixture = Fixture::empty();
    fixture.write(|chats| {
        for n in 0..60 {
            let key = format!("chat:{n}");
            chats.add_message(&key, "user", "hi").wait().unwrap();
        }
    });
    let dir = fixture.dir();
    let lines = |args: &[&str]| run("ls", &dir, args).exits(0).lines().count();
    assert_eq!(lines(&[]), 51);
    assert_eq!(lines(&["--json"]), 60);
    assert_eq!(lines(&["--keys"]), 60);
    assert_eq!(lines(&["--json", "-n", "7"]), 7);
    let log = dir.join("chat_7.jsonl");
    std::fs::remove_file(&log).unwrap();
    std::fs::create_dir(&log).unwrap();
    let listed = json(&run("ls", &dir, &["--json"]).exits(0));
    assert_eq!(listed.len(), 60);
    let unread = listed.iter().filter(|one| one["unreadable"] == true);
    assert_eq!(
        unread.map(|one| &one["key"]).collect::<Vec<_>>(),
        ["chat:7"]
    );
}
