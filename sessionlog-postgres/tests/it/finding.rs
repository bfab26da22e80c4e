//! Erasing, retention, and words.

use sessionlog::scope::SessionScope;
use sessionlog::{Erase, FoundIn, RetentionPolicy, SearchQuery, SessionQuery};

use sessionlog_postgres::{PostgresOptions, PostgresStore};

use crate::support::{fresh, server, store};

#[test]
fn a_person_is_erased_with_all_rows_and_nobody_else_is() {
    let Some(store) = store() else { return };
    let direct = |id: &str| SessionScope {
        version: 1,
        agent_id: "main".into(),
        channel: "telegram".into(),
        account: "default".into(),
        dimensions: vec!["chat".into()],
        values: [("chat".to_owned(), format!("direct:{id}"))].into(),
    };
    let old = "agent:main:telegram:direct:7";
    store.add_message(old, "user", "old").wait().unwrap();
    let ensure = |key, id, alias: &str| {
        let scope = Some(direct(id).to_raw());
        store
            .ensure_session_metadata(key, scope, vec![alias.to_owned()])
            .wait()
            .unwrap()
    };
    assert!(ensure("sk_7", "7", old));
    ensure("sk_8", "8", "agent:main:telegram:direct:8");
    store
        .append_once("sk_8", "id", vec![sessionlog::Message::user("mine")])
        .wait()
        .unwrap();
    let receipt = store.erase(Erase::person("7")).wait().unwrap();
    assert_eq!(receipt.sessions, [old, "sk_7"]);
    assert!(
        !receipt.is_complete(),
        "pages and logs keep bytes, and it says so"
    );
    assert_eq!(store.list_sessions().wait().unwrap(), ["sk_8"]);
    assert!(store.erase(Erase::person(" ")).wait().is_err());
    let receipt = store.erase(Erase::key("nobody")).wait().unwrap();
    assert_eq!(receipt.sessions, ["nobody"]);
    assert_eq!(store.count("sk_8").wait().unwrap(), 1);
}

#[test]
fn a_deletion_leaves_no_row_of_the_session_in_any_table() {
    let Some(server) = server() else { return };
    let schema = fresh("deleted");
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    let store = PostgresStore::open(options).unwrap();
    let said = vec![sessionlog::Message::user("hi")];
    store.append_once("a", "id", said).wait().unwrap();
    store.context("a").clear().wait().unwrap();
    store.add_message("a", "user", "more").wait().unwrap();
    store
        .upsert_session_meta("a", None, vec!["other:a".into()])
        .wait()
        .unwrap();
    let update = sessionlog::Update::new()
        .summary("s")
        .title("t")
        .pinned(true);
    store.update("a", update).wait().unwrap();
    let tables = server.sql(&format!(
        "SELECT string_agg(relname, ' ') FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
         WHERE relnamespace = '{schema}'::regnamespace AND relkind = 'r' AND attname = 'session_id'"
    ));
    let tables: Vec<_> = tables.split(' ').collect();
    assert_eq!(tables.len(), 8, "{tables:?}");
    let rows = |table: &&str| server.sql(&format!("SELECT count(*) FROM {schema}.{table}"));
    assert!(tables.iter().all(|table| rows(table) != "0"));
    store.delete_session("a").wait().unwrap();
    let left: Vec<_> = tables.iter().filter(|table| rows(table) != "0").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_is_over_a_limit_goes_and_what_was_changed_since_the_plan_stays() {
    let Some(store) = store() else { return };
    for key in ["a", "b", "c", "agent:main:main"] {
        store.add_message(key, "user", "hi").wait().unwrap();
    }
    let retention = store.retention(RetentionPolicy::new().count(1));
    let plan = retention.plan().wait().unwrap();
    let keys: Vec<_> = plan
        .expired
        .iter()
        .map(|gone| gone.session.key.as_str())
        .collect();
    assert_eq!((keys, plan.kept), (vec!["b", "a"], 1));
    let report = retention.apply().wait().unwrap();
    assert_eq!(report.deleted.len(), 2);
    assert_eq!(
        store.list_sessions().wait().unwrap(),
        ["agent:main:main", "c"]
    );
}

#[test]
fn words_are_found_in_any_order_and_texts_across_many_lines() {
    let Some(store) = store() else { return };
    let said = |n: usize| sessionlog::Message::user(format!("line {n} of the invoice"));
    store
        .append_all("long", (0..1300).map(said).collect())
        .wait()
        .unwrap();
    store
        .add_message("other", "user", "An INVOICE, overdue: of May")
        .wait()
        .unwrap();
    let hits = store.search_words("may invoice", 10).wait().unwrap();
    assert_eq!(hits.len(), 1);
    assert_eq!((&*hits[0].key, hits[0].matched.clone()), ("other", 3..10));
    assert!(store.search_words("voice", 10).wait().unwrap().is_empty());
    let among = SessionQuery::new().prefix("l");
    let mut search = store.search(SearchQuery::new().text("voice").among(among));
    let mut found = 0;
    while let Some(hit) = search.wait_next() {
        assert_eq!(
            hit.unwrap().message.text(),
            format!("line {found} of the invoice")
        );
        found += 1;
    }
    assert_eq!(found, 1300);
    let invalid = store.search(SearchQuery::new().regex("(")).wait_next();
    assert!(invalid.unwrap().is_err());
}

#[test]
fn a_text_is_kept_twice_only_where_searches_need_it_and_is_found_either_way() {
    let Some(server) = server() else { return };
    let schema = fresh("said");
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    let store = PostgresStore::open(options.clone()).unwrap();
    let plain = "one & two & \"three\"\n\u{e9}t\u{e9} \u{1f600} a\\b";
    let foreign = r#"{"role":"user","content":"f\u006freign \u0026 two"}"#;
    let parts = r#"{"role":"user","content":[{"type":"text","text":"in parts, t"},{"type":"text","text":"wo"}]}"#;
    store.add_message("plain", "user", plain).wait().unwrap();
    store
        .add_message("plain", "assistant", "user")
        .wait()
        .unwrap();
    for (key, line) in [("foreign", foreign), ("parts", parts)] {
        let import = store.import(key, sessionlog::Format::Jsonl, &format!("{line}\n"));
        assert_eq!(import.wait().unwrap(), 1);
    }
    let copies = format!(
        "SELECT string_agg(s.key, ' ' ORDER BY s.key) FROM {schema}.lines l
         JOIN {schema}.sessions s USING (session_id) WHERE l.said IS NOT NULL"
    );
    let keys = server.sql(&copies);
    assert!(!keys.contains("plain") && keys.contains("parts"), "{keys}");
    // Sessions beyond those that are looked through one by one: the table is read as a whole.
    server.sql(&format!(
        "INSERT INTO {schema}.sessions (session_id, key, file_name, version, history, start_at,
             end_at, lines, hidden, messages, agent, channel, aliases, created_at, updated_at,
             updated_ns, whom)
         SELECT n, 'z' || n, convert_to('z' || n || '.meta.json', 'UTF8'), 1, 1, 0, 0, 0, 0, 0, '',
             '', '[]', '', '', n, '{{}}' FROM generate_series(1, 1100) n"
    ));
    for index in [false, true] {
        let store = PostgresStore::open(options.clone().text_search(index)).unwrap();
        let found = |text: &str| {
            let mut search = store.search(SearchQuery::new().text(text));
            let hits = std::iter::from_fn(|| search.wait_next());
            hits.map(|hit| hit.unwrap().key).collect::<Vec<_>>()
        };
        assert_eq!(found("& two & \"three\"\n\u{e9}"), ["plain"]);
        assert_eq!(found("\u{1f600} a\\"), ["plain"]);
        assert_eq!(found("foreign & two"), ["foreign"]);
        assert_eq!(found("parts, two"), ["parts"]);
        assert_eq!(found("role"), [""; 0]);
        let words = |words: &str| {
            let hits = store.search_words(words, 9).wait().unwrap();
            hits.into_iter().map(|hit| hit.key).collect::<Vec<_>>()
        };
        assert_eq!(words("three \u{e9}t\u{e9}"), ["plain"]);
        assert_eq!(words("foreign two"), ["foreign"]);
        assert_eq!(words("parts two"), ["parts"]);
        assert_eq!(
            words("user"),
            ["plain"],
            "and not in what is around the text"
        );
        assert_eq!(words("two -three -parts"), ["foreign"]);
        store.close().wait().unwrap();
    }
}

#[test]
fn many_sessions_are_listed_in_pages_without_gaps() {
    let Some(store) = store() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let appended = (0..250).map(|n| {
            let key = format!("{}:{n}", if n % 2 == 0 { "telegram" } else { "tel%gram" });
            let store = store.clone();
            async move { store.add_message(&key, "user", "x").await.unwrap() }
        });
        futures_util::future::join_all(appended).await;
    });
    for (prefix, expected) in [
        ("tel", 250),
        ("telegram:", 125),
        ("tel%", 125),
        ("telegram:2", 7),
    ] {
        let mut query = SessionQuery::new().prefix(prefix).limit(7);
        let mut seen = std::collections::BTreeSet::new();
        loop {
            let page = store.sessions(query.clone()).wait().unwrap();
            assert!(page.sessions.iter().all(|one| seen.insert(one.key.clone())));
            let Some(next) = page.next else { break };
            query = query.after(next);
        }
        let expected = if prefix == "telegram:2" {
            (0..250)
                .filter(|n| n % 2 == 0 && n.to_string().starts_with('2'))
                .count()
        } else {
            expected
        };
        assert_eq!(seen.len(), expected, "{prefix}");
    }
}

#[test]
fn whose_a_conversation_is_counts_in_lists_searches_and_retention() {
    let Some(store) = store() else { return };
    let scope = |kind: &str, chat: &str, sender: &str| SessionScope {
        version: 1,
        agent_id: "main".into(),
        channel: "telegram".into(),
        account: "default".into(),
        dimensions: vec!["chat".into(), "sender".into()],
        values: [
            ("chat".to_owned(), format!("{kind}:{chat}")),
            ("sender".to_owned(), sender.to_owned()),
        ]
        .into(),
    };
    let scopes = [
        ("sk_1", scope("direct", "alice", "alice")),
        ("sk_2", scope("direct", "bob", "bob")),
        ("sk_3", scope("group", "grp", "carol")),
    ];
    for (key, scope) in scopes {
        store.add_message(key, "user", "secret").wait().unwrap();
        let scope = Some(scope.to_raw());
        let made = store.ensure_session_metadata(key, scope, Vec::new());
        made.wait().unwrap();
    }
    store.add_message("plain", "user", "secret").wait().unwrap();
    let all = SessionQuery::new();
    let keys = |query: SessionQuery| {
        let page = store.sessions(query).wait().unwrap();
        let keys = page.sessions.into_iter().map(|session| session.key);
        (keys.collect::<Vec<_>>(), page.next.is_some())
    };
    assert_eq!(keys(all.clone().person("bob")).0, ["sk_2"]);
    assert_eq!(keys(all.clone().person("bob").limit(1)).0, ["sk_2"]);
    assert_eq!(keys(all.clone().chat("grp")).0, ["sk_3"]);
    assert_eq!(keys(all.clone().person("zoe")), (Vec::new(), false));
    let among = all.person("alice");
    let mut search = store.search(SearchQuery::new().text("secret").among(among.clone()));
    let hits = std::iter::from_fn(|| search.wait_next());
    let hits: Vec<_> = hits.map(|hit| hit.unwrap().key).collect();
    assert_eq!(hits, ["sk_1"]);
    let policy = RetentionPolicy::new().count(0).among(among);
    let report = store.retention(policy).apply().wait().unwrap();
    let gone: Vec<_> = report
        .deleted
        .iter()
        .map(|gone| &*gone.session.key)
        .collect();
    assert_eq!(gone, ["sk_1"]);
    assert_eq!(
        store.list_sessions().wait().unwrap(),
        ["plain", "sk_2", "sk_3"]
    );
}

#[test]
fn many_sessions_are_searched_in_one_scan_and_found_in_their_order() {
    let Some(server) = server() else { return };
    let (schema, sessions, each) = match std::env::var("SESSIONLOG_LONG") {
        Ok(_) => (fresh("scan"), 100_000, 10),
        Err(_) => (fresh("scan"), 3_000, 5),
    };
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    let store = PostgresStore::open(options).unwrap();
    server.sql(&format!(
        "INSERT INTO {schema}.sessions (session_id, key, file_name, version, history, start_at,
             end_at, lines, hidden, messages, agent, channel, aliases, created_at, updated_at,
             updated_ns)
         SELECT n, 's' || n, convert_to('s' || n || '.meta.json', 'UTF8'), 1, 1, 100, 100000,
             {each}, 1, {each} - 1, '', '', '[]', '', '', n
         FROM generate_series(1, {sessions}) n;
         INSERT INTO {schema}.lines
         SELECT s, l * 100, 0,
             convert_to('{{\"role\":\"user\",\"content\":\"' || t || '\"}}', 'UTF8'), t
         FROM generate_series(1, {sessions}) s, generate_series(0, {each} - 1) l,
             LATERAL (SELECT 'line ' || l || CASE WHEN s % 900 = 7 THEN ' needle' ELSE '' END t) t;
         ANALYZE {schema}.sessions; ANALYZE {schema}.lines"
    ));
    let search = |query: SearchQuery| {
        let mut search = store.search(query);
        std::iter::from_fn(|| search.wait_next())
            .map(|hit| hit.unwrap())
            .collect::<Vec<_>>()
    };
    let scans = || {
        // What a connection did is told after a moment, or when it asks.
        let scans = server.sql(&format!(
            "SELECT seq_scan, idx_scan FROM pg_stat_all_tables
             WHERE schemaname = '{schema}' AND relname = 'lines'"
        ));
        let (all, by_index) = scans.split_once('|').unwrap();
        (
            all.parse::<u64>().unwrap(),
            by_index.parse::<u64>().unwrap(),
        )
    };
    assert!(search(SearchQuery::new().text("nowhere")).is_empty());
    let found = search(SearchQuery::new().text("needle"));
    let expected = (1..=sessions).filter(|s| s % 900 == 7);
    let mut expected: Vec<_> = expected.map(|s| format!("s{s}")).collect();
    expected.sort();
    let keys: Vec<_> = found.iter().map(|hit| hit.key.clone()).collect();
    let with_lines = expected.iter().flat_map(|key| vec![key.clone(); each - 1]);
    assert_eq!(keys, with_lines.collect::<Vec<_>>(), "hidden ones are none");
    // And beside messages, where the database looks for titles and summaries, too.
    store.set_title("s5", "the \"needle\"").wait().unwrap();
    store.set_summary("s6", "a needle").wait().unwrap();
    let besides = search(SearchQuery::new().text("needle").summaries(true));
    assert_eq!(besides.len(), keys.len() + 2);
    let outside = besides.iter().filter(|hit| hit.found_in != FoundIn::Text);
    let outside: Vec<_> = outside.map(|hit| (&*hit.key, hit.found_in)).collect();
    assert_eq!(outside, [("s5", FoundIn::Title), ("s6", FoundIn::Summary)]);
    let quoted = search(SearchQuery::new().text("\"needle\"").summaries(true));
    assert_eq!(quoted.len(), 1);
    // Whatever the case of letters: the database rules nothing out.
    let any_case = SearchQuery::new().text("NEEDLE").ignore_case(true);
    assert_eq!(search(any_case).len(), keys.len());
    let newest = SessionQuery::new().order(sessionlog::SessionOrder::Updated);
    let newest = search(SearchQuery::new().text("needle").among(newest));
    assert_eq!(newest.len(), keys.len());
    let last = (1..=sessions).rfind(|s| s % 900 == 7).unwrap();
    assert_eq!(newest[0].key, format!("s{last}"));

    // One that finds nothing looks into no session.
    store.close().wait().unwrap();
    let store = PostgresStore::open(PostgresOptions::new(server.dsn()).schema(&schema)).unwrap();
    // A connection has told all it did when it is gone.
    let gone = format!(
        "SELECT count(*) FROM pg_stat_activity
         WHERE application_name = 'sessionlog' AND query LIKE '%{schema}%lines%'"
    );
    while server.sql(&gone) != "0" {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let before = scans();
    assert!(
        store
            .search(SearchQuery::new().text("nowhere"))
            .wait_next()
            .is_none()
    );
    store.close().wait().unwrap();
    while scans().0 == before.0 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(scans().1, before.1);
}

#[test]
fn a_search_holds_no_more_than_some_megabytes_of_what_it_found() {
    let Some(store) = store() else { return };
    let text = |n: usize| format!("{n} needle {}", "x".repeat(1 << 20));
    for key in ["a", "b", "c", "d"] {
        let said = (0..12).map(|n| sessionlog::Message::user(text(n)));
        store.append_all(key, said.collect()).wait().unwrap();
    }
    let mut search = store.search(SearchQuery::new().text("needle"));
    let mut found: Vec<(String, String)> = Vec::new();
    while let Some(hit) = search.wait_next() {
        let hit = hit.unwrap();
        let begin = hit.message.text().split(' ').next().unwrap().to_owned();
        found.push((hit.key, begin));
        // It says how many more it has.
        let told = format!("{search:?}");
        let held = told.split(|c: char| !c.is_ascii_digit());
        let held = { held }.find(|part| !part.is_empty()).unwrap();
        assert!(held.parse::<usize>().unwrap() < 9, "{told}");
    }
    let all = ["a", "b", "c", "d"]
        .into_iter()
        .flat_map(|key| (0..12).map(move |n| (key.to_owned(), n.to_string())));
    assert_eq!(found, all.collect::<Vec<_>>());
}

#[test]
fn what_a_truncation_hid_is_found_until_it_is_compacted_if_that_is_asked_for() {
    let Some(store) = store() else { return };
    let dir = crate::support::scratch();
    let files = sessionlog::Store::open_with(
        dir.path(),
        sessionlog::StoreOptions::new().auto_compact(false),
    )
    .unwrap();
    let chats = files.handle();
    for n in 0..6 {
        let text = format!("needle {n}");
        store.add_message("a", "user", &text).wait().unwrap();
        chats.add_message("a", "user", &text).wait().unwrap();
    }
    store.truncate_history("a", 4).wait().unwrap();
    chats.truncate_history("a", 4).wait().unwrap();
    let found = |mut search: sessionlog::Search| {
        let hits = std::iter::from_fn(|| search.wait_next()).map(Result::unwrap);
        let told = hits.map(|hit| (hit.message.text().into_owned(), hit.hidden));
        told.collect::<Vec<_>>()
    };
    let query = |with| SearchQuery::new().text("needle").archived(with);
    for with in [true, false] {
        let hits = found(store.search(query(with)));
        assert_eq!(hits, found(chats.search(query(with))));
        assert_eq!(hits.len(), if with { 6 } else { 4 });
    }
    store.compact("a").wait().unwrap();
    assert_eq!(found(store.search(query(true))).len(), 4);
    files.close().unwrap();
}

/// What the library logs on this thread.
#[derive(Clone, Default)]
struct Log(std::sync::Arc<std::sync::Mutex<String>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

impl tracing::field::Visit for Log {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        use std::fmt::Write as _;
        let mut log = self.0.lock().unwrap();
        writeln!(log, "{field}={value:?}").unwrap();
    }
}

#[test]
fn a_text_that_is_indexed_in_part_is_taken_and_that_is_logged() {
    let Some(server) = server() else { return };
    let options = PostgresOptions::new(server.dsn()).schema(fresh("long"));
    let told = |store: &PostgresStore, text: &str| {
        let log = Log::default();
        tracing::subscriber::with_default(log.clone(), || {
            store.add_message("a", "user", text).wait().unwrap();
        });
        let log = log.0.lock().unwrap().clone();
        log.contains("indexed in part")
    };
    // Two bytes a character: what counts are characters.
    let (whole, long) = ("\u{e9}".repeat(65_536), "\u{e9}".repeat(65_537));
    let plain = PostgresStore::open(options.clone()).unwrap();
    assert!(!told(&plain, &long), "there is no index");
    let indexed = PostgresStore::open(options.text_search(true)).unwrap();
    assert!(!told(&indexed, &whole));
    assert!(told(&indexed, &long));
    assert!(told(&indexed, &format!("found {}", "w ".repeat(40_000))));
    assert_eq!(indexed.count("a").wait().unwrap(), 4);
    assert_eq!(indexed.search_words("found", 9).wait().unwrap().len(), 1);
}
