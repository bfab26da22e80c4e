//! Databases of OpenAI's Agents SDK.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use crate::support::{Fixture, json, run, run_with};

/// A database as the SDK makes one, with tables of these names.
fn made(path: &Path, sessions: &str, messages: &str) -> Connection {
    let database = Connection::open(path).unwrap();
    database.pragma_update(None, "journal_mode", "WAL").unwrap();
    database
        .execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS {sessions} (
                session_id TEXT PRIMARY KEY,
                created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
                updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
             CREATE TABLE IF NOT EXISTS {messages} (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                session_id TEXT NOT NULL,
                message_data TEXT NOT NULL,
                created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
                FOREIGN KEY (session_id) REFERENCES {sessions} (session_id) ON DELETE CASCADE);
             CREATE INDEX IF NOT EXISTS idx_session_id ON {messages} (session_id, id);"
        ))
        .unwrap();
    database
}

fn sdk(path: &Path) -> Connection {
    made(path, "agent_sessions", "agent_messages")
}

/// Adds an item; the id of its row.
fn add(database: &Connection, session: &str, time: &str, item: &str) -> i64 {
    let sql = "INSERT OR IGNORE INTO agent_sessions (session_id) VALUES (?1)";
    database.execute(sql, [session]).unwrap();
    let sql =
        "INSERT INTO agent_messages (session_id, message_data, created_at) VALUES (?1, ?2, ?3)";
    database.execute(sql, params![session, item, time]).unwrap();
    database.last_insert_rowid()
}

fn user(text: &str) -> String {
    format!(r#"{{"content": "{text}", "role": "user"}}"#)
}

/// What a run with a tool leaves in a session.
const RUN: [&str; 6] = [
    r#"{"content": [{"type": "input_text", "text": "what is it?"}, {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"}], "role": "user"}"#,
    r#"{"id": "rs_1", "summary": [{"text": "hm", "type": "summary_text"}], "type": "reasoning"}"#,
    r#"{"arguments": "{\"city\":\"Oslo\"}", "call_id": "call_1", "name": "weather", "type": "function_call", "id": "fc_1", "status": "completed"}"#,
    r#"{"call_id": "call_1", "output": "sunny", "type": "function_call_output"}"#,
    r#"{"id": "ws_1", "status": "completed", "type": "web_search_call"}"#,
    r#"{"id": "msg_1", "content": [{"annotations": [], "text": "Sunny \ud83d\ude00, half \ud83d", "type": "output_text"}], "role": "assistant", "status": "completed", "type": "message"}"#,
];

fn add_run(database: &Connection, session: &str) {
    for (n, item) in RUN.iter().enumerate() {
        add(database, session, &format!("2025-03-01 09:00:0{n}"), item);
    }
}

fn keys(dir: &Path) -> Vec<String> {
    let listed = run("ls", dir, &["--keys", "--all"]).exits(0);
    let mut keys: Vec<_> = listed.lines().map(String::from).collect();
    keys.sort();
    keys
}

fn shown(dir: &Path, key: &str) -> Vec<serde_json::Value> {
    json(&run("show", dir, &[key, "--json"]).exits(0))
}

fn texts(dir: &Path, key: &str) -> Vec<String> {
    let shown = shown(dir, key);
    let text =
        |message: &serde_json::Value| message["content"].as_str().unwrap_or("[parts]").into();
    shown.iter().map(text).collect()
}

/// What is in a directory, by name.
fn held(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut held: Vec<_> = entries
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    held.sort();
    held
}

#[test]
fn each_session_of_a_database_of_the_agents_sdk_becomes_one_with_its_times() {
    let fixture = Fixture::empty();
    let (dir, path) = (fixture.dir(), fixture.beside("conversations.db"));
    let database = sdk(&path);
    add_run(&database, "user-1");
    add(&database, "user-2", "2025-03-02 10:00:00", &user("hi"));
    drop(database);
    let before = fs::read(&path).unwrap();
    let path = path.to_str().unwrap();
    let told = run("import", &dir, &[path]).exits(0);
    assert!(
        told.contains("OpenAI Responses: 1 file, 5 messages imported")
            && told.contains("left out, 1 times: an item \"web_search_call\"")
            && told.contains("1 damaged character became U+FFFD"),
        "{told}"
    );
    assert_eq!(keys(&dir), ["responses:user-1", "responses:user-2"]);
    let said = shown(&dir, "responses:user-1");
    assert_eq!(said.len(), 4);
    assert_eq!(said[1]["tool_calls"][0]["function"]["name"], "weather");
    assert_eq!(said[1]["reasoning_content"], "hm");
    assert_eq!(said[2]["tool_call_id"], "call_1");
    assert_eq!(said[3]["content"], "Sunny \u{1f600}, half \u{fffd}");
    assert!(said[0].to_string().contains("iVBORw0KGgo="), "{}", said[0]);
    let times: Vec<_> = said.iter().map(|said| said["created_at"].clone()).collect();
    let time = |second| format!("2025-03-01T09:00:0{second}Z");
    assert_eq!(times, [0, 1, 3, 5].map(time));
    fixture.read(|chats| {
        let meta = chats.session_meta("responses:user-2").wait().unwrap();
        assert_eq!(meta.created_at, "2025-03-02T10:00:00Z");
        assert_eq!(meta.updated_at, "2025-03-02T10:00:00Z");
    });
    assert!(
        fs::read(path).unwrap() == before,
        "the database was changed"
    );

    let again = run("import", &dir, &[path]).exits(1);
    assert!(
        again.contains("responses:user-1 has messages already"),
        "{again}"
    );
    run(
        "import",
        &dir,
        &[path, "--to", "web", "--format", "responses"],
    )
    .exits(0);
    assert!(keys(&dir).contains(&"web:user-2".into()));
}

#[test]
fn a_database_in_use_is_read_as_far_as_it_is_committed() {
    let fixture = Fixture::empty();
    let (dir, path) = (fixture.dir(), fixture.beside("live.db"));
    let owner = sdk(&path);
    owner.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    add(&owner, "s", "2025-03-01 09:00:00", &user("committed"));
    owner.execute_batch("BEGIN IMMEDIATE").unwrap();
    add(&owner, "s", "2025-03-01 09:00:01", &user("not yet"));
    assert!(fs::metadata(fixture.beside("live.db-wal")).unwrap().len() > 0);
    run("import", &dir, &[path.to_str().unwrap()]).exits(0);
    assert_eq!(texts(&dir, "responses:s"), ["committed"]);
    // Its owner is not disturbed.
    owner.execute_batch("COMMIT").unwrap();
    let sql = "SELECT count(*) FROM agent_messages";
    let many: i64 = owner.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(many, 2);
}

#[test]
fn what_a_crash_left_in_the_log_beside_a_database_is_read() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let path = fixture.beside("live.db");
    let owner = sdk(&path);
    owner.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    add(
        &owner,
        "s",
        "2025-03-01 09:00:00",
        &user("in the log alone"),
    );
    // As a crash leaves them: nobody has these open.
    let left = fixture.beside("left");
    fs::create_dir(&left).unwrap();
    for end in ["", "-wal"] {
        fs::copy(
            fixture.beside(&format!("live.db{end}")),
            left.join(format!("left.db{end}")),
        )
        .unwrap();
    }
    drop(owner);
    let before = held(&left);
    run("import", &dir, &[left.join("left.db").to_str().unwrap()]).exits(0);
    assert_eq!(texts(&dir, "responses:s"), ["in the log alone"]);
    let after = held(&left);
    assert!(
        before.iter().all(|file| after.contains(file)),
        "a file was changed"
    );
}

#[test]
fn what_a_crash_left_half_written_is_not_read() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let path = fixture.beside("live.db");
    let owner = sdk(&path);
    owner
        .execute_batch("PRAGMA journal_mode = DELETE; PRAGMA cache_size = 4")
        .unwrap();
    add(&owner, "s", "2025-03-01 09:00:00", &user("committed"));
    owner.execute_batch("BEGIN IMMEDIATE").unwrap();
    // More than it holds in memory: it writes into the file before it commits.
    for _ in 0..100 {
        let item = user(&"x".repeat(4000));
        add(&owner, "s", "2025-03-01 09:00:01", &item);
    }
    let left = fixture.beside("left");
    fs::create_dir(&left).unwrap();
    for end in ["", "-journal"] {
        let from = fixture.beside(&format!("live.db{end}"));
        fs::copy(from, left.join(format!("left.db{end}"))).unwrap();
    }
    drop(owner);
    let before = held(&left);
    assert!(before[0].1.len() > 100 * 4000);
    run("import", &dir, &[left.join("left.db").to_str().unwrap()]).exits(0);
    assert_eq!(texts(&dir, "responses:s"), ["committed"]);
    assert!(held(&left) == before, "a file was changed");
}

#[test]
fn branches_of_an_advanced_session_are_sessions_of_their_own() {
    let fixture = Fixture::empty();
    let (dir, path) = (fixture.dir(), fixture.beside("advanced.db"));
    let database = sdk(&path);
    database
        .execute_batch(
            "CREATE TABLE message_structure (
                id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
                message_id INTEGER NOT NULL, branch_id TEXT NOT NULL DEFAULT 'main',
                message_type TEXT NOT NULL, sequence_number INTEGER NOT NULL,
                user_turn_number INTEGER, branch_turn_number INTEGER, tool_name TEXT,
                created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
                FOREIGN KEY (session_id) REFERENCES agent_sessions(session_id),
                FOREIGN KEY (message_id) REFERENCES agent_messages(id));",
        )
        .unwrap();
    let says = |text: &str| add(&database, "s", "2025-03-01 09:00:00", &user(text));
    let ids = ["first", "second", "other", "deleted"].map(says);
    let structure = [
        (0, "main", 1),
        (1, "main", 2),
        (0, "idea", 3),
        (2, "idea", 4),
    ];
    for (place, branch, sequence) in structure {
        let sql = "INSERT INTO message_structure
            (session_id, message_id, branch_id, message_type, sequence_number)
            VALUES ('s', ?1, ?2, 'user', ?3)";
        database
            .execute(sql, params![ids[place], branch, sequence])
            .unwrap();
    }
    // A plain session in the same tables.
    add(&database, "plain", "2025-03-01 09:00:00", &user("plain"));
    let told = run("import", &dir, &[path.to_str().unwrap()]).exits(0);
    assert!(
        told.contains("left out, 1 times: a message of no branch"),
        "{told}"
    );
    assert_eq!(
        keys(&dir),
        ["responses:plain", "responses:s", "responses:s:branch:idea"]
    );
    assert_eq!(texts(&dir, "responses:s"), ["first", "second"]);
    assert_eq!(texts(&dir, "responses:s:branch:idea"), ["first", "other"]);
    assert_eq!(texts(&dir, "responses:plain"), ["plain"]);
}

#[test]
fn a_row_that_is_no_item_is_named_and_the_other_sessions_are_imported() {
    let fixture = Fixture::empty();
    let (dir, path) = (fixture.dir(), fixture.beside("bad.db"));
    let database = sdk(&path);
    let time = "2025-03-01 09:00:00";
    let bad = [
        ("cut", r#"{"role": "user", "content": "hel"#, "no JSON"),
        (
            "two",
            r#"{"role":"user","content":"a"},{"role":"user","content":"b"}"#,
            "no JSON",
        ),
        ("list", "[]", "an object was expected"),
        (
            "new",
            r#"{"type": "hologram"}"#,
            "an item of the type \"hologram\"",
        ),
        ("none", "{}", "there is no role"),
        (
            "secret",
            r#"{"__enc__": 1, "v": 1, "kid": "k", "payload": "gAAAA"}"#,
            "EncryptedSession",
        ),
    ];
    let mut rows = Vec::new();
    for (session, item, _) in bad {
        add(&database, session, time, &user("before"));
        rows.push(add(&database, session, time, item));
    }
    add(&database, "good", time, &user("hi"));
    let told = run("import", &dir, &[path.to_str().unwrap()]).exits(1);
    for ((session, _, why), row) in bad.iter().zip(rows) {
        let begins = format!("session {session}: row {row}: ");
        let line = told.lines().find(|line| line.contains(&begins));
        assert!(
            line.is_some_and(|line| line.contains(why)),
            "{session}: {told}"
        );
    }
    assert_eq!(keys(&dir), ["responses:good"]);
}

#[test]
fn tables_of_other_names_are_found_and_sessions_of_two_tables_stay_apart() {
    let fixture = Fixture::empty();
    let (dir, path) = (fixture.dir(), fixture.beside("named.sqlite"));
    let database = made(&path, "chats", "\"chat items\"");
    drop(made(&fixture.beside("unused.db"), "a", "b"));
    database
        .execute("INSERT INTO chats (session_id) VALUES ('s')", [])
        .unwrap();
    let sql = "INSERT INTO \"chat items\" (session_id, message_data) VALUES ('s', ?1)";
    database
        .execute(sql, [user("of a table of another name")])
        .unwrap();
    let path = path.to_str().unwrap();
    run("import", &dir, &[path]).exits(0);
    assert_eq!(texts(&dir, "responses:s"), ["of a table of another name"]);
    sdk(Path::new(path));
    add(
        &database,
        "s",
        "2025-03-01 09:00:00",
        &user("of the usual table"),
    );
    run("import", &dir, &[path, "--to", "two"]).exits(0);
    assert_eq!(keys(&dir), ["responses:s", "two:chat items:s", "two:s"]);
    assert_eq!(texts(&dir, "two:s"), ["of the usual table"]);
}

#[test]
fn a_database_without_such_tables_is_refused_and_passed_over_in_a_tree() {
    let fixture = Fixture::empty();
    let (dir, tree) = (fixture.dir(), fixture.beside("tree"));
    fs::create_dir(&tree).unwrap();
    let other = tree.join("other.db");
    let database = Connection::open(&other).unwrap();
    database
        .execute_batch("CREATE TABLE files (id INTEGER, path TEXT)")
        .unwrap();
    drop(database);
    fs::write(tree.join("thumbs.db"), "no database").unwrap();
    let refused = run("import", &dir, &[other.to_str().unwrap()]).fails();
    assert!(
        refused.contains("without sessions of OpenAI's Agents SDK"),
        "{refused}"
    );
    assert!(!dir.exists());
    for format in ["codex", "jsonl"] {
        let args = [other.to_str().unwrap(), "--format", format, "--to", "k"];
        let refused = run("import", &dir, &args).fails();
        assert!(refused.contains("a database of SQLite"), "{refused}");
    }
    let piped = run_with("import", &dir, &["-"], "SQLite format 3\0").fails();
    assert!(piped.contains("sessionlog import DIR FILE"), "{piped}");
    add(
        &sdk(&tree.join("agents.db")),
        "s",
        "2025-03-01 09:00:00",
        &user("hi"),
    );
    let told = run("import", &dir, &[tree.to_str().unwrap()]).exits(0);
    assert!(
        told.contains("OpenAI Responses: 1 file, 1 message imported"),
        "{told}"
    );
    assert!(!told.contains("left as it is"), "{told}");
}

#[test]
fn a_damaged_database_is_left_with_what_is_wrong_with_it() {
    let fixture = Fixture::empty();
    let (dir, path) = (fixture.dir(), fixture.beside("damaged.db"));
    let bytes = [b"SQLite format 3\0".as_slice(), &[0xff; 4096]].concat();
    fs::write(&path, bytes).unwrap();
    let refused = run("import", &dir, &[path.to_str().unwrap()]).fails();
    assert!(
        refused.contains("damaged.db") && refused.contains(".recover"),
        "{refused}"
    );
    assert!(!dir.exists());
}

#[test]
fn ids_that_are_no_text_are_imported_and_rows_without_one_are_named() {
    let fixture = Fixture::empty();
    let (dir, path) = (fixture.dir(), fixture.beside("ids.db"));
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch(
            "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id, message_data)",
        )
        .unwrap();
    for (id, text) in [
        ("7", "integer"),
        ("2.5", "real"),
        ("x'626c6f62'", "blob"),
        ("'text'", "text"),
        ("CAST(x'ff' AS TEXT)", "no UTF-8"),
        ("NULL", "none"),
    ] {
        let sql =
            format!("INSERT INTO agent_messages (session_id, message_data) VALUES ({id}, ?1)");
        database.execute(&sql, [user(text)]).unwrap();
    }
    let told = run("import", &dir, &[path.to_str().unwrap()]).exits(1);
    assert!(
        told.contains("session NULL: its rows are of no session"),
        "{told}"
    );
    for (id, text) in [
        ("7", "integer"),
        ("2.5", "real"),
        ("blob", "blob"),
        ("text", "text"),
        ("\u{fffd}", "no UTF-8"),
    ] {
        assert_eq!(texts(&dir, &format!("responses:{id}")), [text]);
    }
}

#[test]
fn an_odd_row_table_or_page_costs_only_the_sessions_it_is_of() {
    let fixture = Fixture::empty();
    let (dir, path) = (fixture.dir(), fixture.beside("odd.db"));
    let time = "2025-03-01 09:00:00";
    let database = sdk(&path);
    database
        .execute_batch(
            "CREATE TABLE odd (id TEXT, session_id TEXT, message_data TEXT);
             CREATE TABLE message_structure (
                id INTEGER PRIMARY KEY, session_id TEXT, message_id INTEGER, branch_id TEXT,
                sequence_number INTEGER,
                FOREIGN KEY (message_id) REFERENCES agent_messages(id));",
        )
        .unwrap();
    for session in ["before", "damaged", "after"] {
        // A page each.
        add(&database, session, time, &user(&session.repeat(400)));
    }
    let row = add(&database, "branched", time, &user("branched"));
    let sql = "INSERT INTO message_structure
        VALUES (1, 'branched', ?1, CAST(x'ff' AS TEXT), 1), (2, 'branched', ?1, NULL, 1)";
    database.execute(sql, [row]).unwrap();
    let sql = "INSERT INTO odd VALUES ('row-1', 's', ?1), ('row-2', 't', 'no item')";
    database.execute(sql, [user("odd")]).unwrap();
    database.close().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let page = place_of(&bytes, b"damageddamaged") / 4096 * 4096;
    bytes[page..page + 4096].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let told = run("import", &dir, &[path.to_str().unwrap()]).exits(1);
    let line = |what: &str| {
        told.lines()
            .find(|line| line.contains(what))
            .unwrap_or_default()
    };
    assert!(line("session damaged: ").contains(".recover"), "{told}");
    assert!(line("session t: ").contains("row row-2: no JSON"), "{told}");
    assert_eq!(
        keys(&dir),
        [
            "responses:after",
            "responses:before",
            "responses:branched",
            "responses:branched:branch:\u{fffd}",
            "responses:odd:s"
        ]
    );
}

/// Where bytes are in others.
fn place_of(bytes: &[u8], part: &[u8]) -> usize {
    let mut windows = bytes.windows(part.len());
    windows.position(|window| window == part).unwrap()
}

#[test]
fn a_view_in_the_place_of_a_table_is_not_run() {
    let fixture = Fixture::empty();
    let (dir, path) = (fixture.dir(), fixture.beside("view.db"));
    let database = sdk(&path);
    for text in ["first", "second"] {
        add(&database, "s", "2025-03-01 09:00:00", &user(text));
    }
    database
        .execute_batch(
            "CREATE VIEW message_structure AS SELECT id, session_id, id AS message_id,
                'main' AS branch_id, id AS sequence_number FROM agent_messages LIMIT 1",
        )
        .unwrap();
    run("import", &dir, &[path.to_str().unwrap()]).exits(0);
    assert_eq!(texts(&dir, "responses:s"), ["first", "second"]);
}

#[test]
fn a_format_holds_for_the_databases_of_a_directory() {
    let fixture = Fixture::empty();
    let (dir, tree) = (fixture.dir(), fixture.beside("tree"));
    fs::create_dir(&tree).unwrap();
    let time = "2025-03-01 09:00:00";
    add(&sdk(&tree.join("agents.db")), "s", time, &user("hi"));
    Connection::open(tree.join("other.db"))
        .unwrap()
        .execute_batch("CREATE TABLE files (id INTEGER, path TEXT)")
        .unwrap();
    let tree = tree.to_str().unwrap();
    let told = run("import", &dir, &[tree, "--format", "codex"]).exits(1);
    assert!(
        told.contains("agents.db: left as it is")
            && told.contains("leave --format out")
            && !told.contains("other.db"),
        "{told}"
    );
    run("ls", &dir, &["--all"]).exits(1);
    run("import", &dir, &[tree, "--format", "responses"]).exits(0);
    assert_eq!(keys(&dir), ["responses:s"]);
}

#[test]
fn a_session_that_two_databases_have_is_left_with_the_name_of_the_first() {
    let fixture = Fixture::empty();
    let (dir, tree) = (fixture.dir(), fixture.beside("tree"));
    fs::create_dir(&tree).unwrap();
    for name in ["a.db", "b.db"] {
        let time = "2025-03-01 09:00:00";
        add(&sdk(&tree.join(name)), "s", time, &user(name));
    }
    let tree = tree.to_str().unwrap();
    let told = run("import", &dir, &[tree]).exits(1);
    let line = told.lines().find(|line| line.contains("b.db: left"));
    assert!(
        line.is_some_and(|line| line.contains("a.db in this import")),
        "{told}"
    );
    assert_eq!(texts(&dir, "responses:s"), ["a.db"]);
    let again = run("import", &dir, &[tree]).exits(1);
    assert!(!again.contains("in this import"), "{again}");
}

#[test]
fn a_damaged_database_of_a_directory_is_left_with_the_next_step() {
    let fixture = Fixture::empty();
    let (dir, tree) = (fixture.dir(), fixture.beside("tree"));
    fs::create_dir(&tree).unwrap();
    let bytes = [b"SQLite format 3\0".as_slice(), &[0xff; 4096]].concat();
    fs::write(tree.join("damaged.db"), bytes).unwrap();
    let told = run("import", &dir, &[tree.to_str().unwrap()]).exits(1);
    assert!(told.contains(".recover"), "{told}");
}
