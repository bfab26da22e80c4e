//! Each index earns its keep: the statements that it is for use it.

use sessionlog::{Message, SessionOrder, SessionQuery};
use sessionlog_postgres::{PostgresOptions, PostgresStore};

use crate::support::cluster::Cluster;
use crate::support::{fresh, said, server};

/// Fills the tables by the operator's means: 20,000 sessions of six lines, one of them long; in
/// long runs 100,000 of ten.
fn fill(schema: &str) -> String {
    let (sessions, last) = match std::env::var("SESSIONLOG_LONG") {
        Ok(_) => (100_000, 9),
        Err(_) => (20_000, 5),
    };
    format!(
        "INSERT INTO {schema}.sessions (session_id, key, file_name, version, history, start_at,
             end_at, lines, hidden, messages, agent, channel, aliases, created_at, updated_at,
             updated_ns, whom)
         SELECT n, 'telegram:' || n, convert_to('telegram_' || n || '.meta.json', 'UTF8'), n, n,
             0, 10000000, 10, 0, 10, 'main', 'telegram', '[]', '', '', n * 60000000000,
             ARRAY[(n / 2)::text]
         FROM generate_series(1, {sessions}) n;
         INSERT INTO {schema}.session_summaries
         SELECT n, convert_to('of ' || n, 'UTF8') FROM generate_series(1, {sessions}, 2) n;
         INSERT INTO {schema}.session_tags
         SELECT n, '{{\"labels\":[\"any\",\"label' || n || '\"]}}', ARRAY['any', 'label' || n],
             n % 1000 = 0
         FROM generate_series(1, {sessions}) n;
         INSERT INTO {schema}.lines
         SELECT s, l * 100, CASE WHEN l % 50 = 3 THEN 1 ELSE 0 END,
             convert_to('{{\"role\":\"user\",\"content\":\"word' || l || '\"}}', 'UTF8'), 'word' || l
         FROM generate_series(1, {sessions}) s,
             generate_series(0, CASE WHEN s = 7 THEN 20000 ELSE {last} END) l;
         INSERT INTO {schema}.session_aliases
         SELECT n, a, convert_to('telegram_' || n || '.meta.json', 'UTF8'), 'telegram:' || n
         FROM generate_series(1, {sessions}) n, unnest(ARRAY['agent:main:main', 'old:' || n]) a;
         INSERT INTO {schema}.message_ids
         SELECT n, convert_to('id' || n, 'UTF8'), 1 FROM generate_series(1, {sessions}) n;
         INSERT INTO {schema}.backups
         SELECT n, number, 0, 0, 600, 0, 600, 6, 0, 6
         FROM generate_series(1, {sessions}) n, generate_series(1, 2) number;
         INSERT INTO {schema}.backup_lines
         SELECT s, number, l * 100, 0, convert_to('{{}}', 'UTF8'), NULL
         FROM generate_series(1, {sessions}) s, generate_series(1, 2) number,
             generate_series(0, 5) l;
         ANALYZE {schema}.backups; ANALYZE {schema}.backup_lines; ANALYZE {schema}.sessions;
         ANALYZE {schema}.session_summaries; ANALYZE {schema}.session_tags; ANALYZE {schema}.lines; ANALYZE {schema}.session_aliases;
         ANALYZE {schema}.message_ids;"
    )
}

/// How the server carries a statement out.
fn explained(server: &Cluster, mode: &str, statement: &str, params: &str) -> String {
    let plan = server.sql(&format!(
        "SET plan_cache_mode = {mode}; PREPARE one {statement}; EXPLAIN EXECUTE one({params})"
    ));
    format!("{mode}: {statement}\n{plan}")
}

fn assert_uses(plan: &str, indexes: &[&str]) {
    for index in indexes {
        assert!(plan.contains(index), "{index} is not used:\n{plan}");
    }
    // A row for each store that listens, and for each lane.
    let plan = plan.replace("Seq Scan on followers", "");
    let plan = plan.replace("Seq Scan on lanes", "");
    // Of many that have a word, the planner may read all sessions' rows at once. The newest of all
    // are found by reading all, which are in no order that an append would have to keep; and
    // messages with a text by reading all, once.
    let scan = if indexes.contains(&"words_of_lines") {
        "Seq Scan on lines"
    } else {
        "Seq Scan on"
    };
    let plan = indexes
        .iter()
        .filter(|what| what.starts_with("Seq Scan"))
        .fold(plan, |plan, what| plan.replace(what, ""));
    assert!(!plan.contains(scan), "{plan}");
}

#[test]
fn the_last_of_a_long_session_among_short_ones_are_read_without_the_rest() {
    let Some(server) = server() else { return };
    let schema = fresh("skewed");
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    let store = PostgresStore::open(options).unwrap();
    // Lines of two thousand sessions as they come in, mixed; and ten thousand of another.
    server.sql(&format!(
        "INSERT INTO {schema}.sessions (session_id, key, file_name, version, history, start_at,
             end_at, lines, hidden, messages, agent, channel, aliases, created_at, updated_at,
             updated_ns)
         SELECT hashint8extended(n, 1), 's' || n, convert_to('s' || n, 'UTF8'), 1, 1, 0, 1000000,
             9, 0, 9, '', '', '[]', '', '', 0
         FROM generate_series(0, 2000) n;
         INSERT INTO {schema}.lines
         SELECT hashint8extended(s, 1), l * 100, 0, convert_to(repeat('x', 200), 'UTF8'), NULL
         FROM generate_series(0, 8) l, generate_series(1, 2000) s;
         INSERT INTO {schema}.lines
         SELECT hashint8extended(0, 1), l * 100, 0,
             convert_to('{{\"role\":\"user\",\"content\":\"' || l || '\"}}', 'UTF8'), NULL
         FROM generate_series(0, 9999) l;
         ANALYZE {schema}.lines; ANALYZE {schema}.sessions;"
    ));
    let statements = sessionlog_postgres::statements(&schema);
    let tail = statements.iter().find(|(sql, ..)| sql.contains("LIMIT $5"));
    let (tail, ..) = tail.unwrap();
    for mode in ["force_custom_plan", "force_generic_plan"] {
        let params = "'s0', 's0', false, false, 50";
        let plan = explained(server, mode, tail, params);
        assert!(plan.contains("Scan Backward using lines_pkey"), "{plan}");
        assert!(!plan.contains("Bitmap"), "{plan}");
    }
    let last = store.tail("s0", 2).wait().unwrap();
    assert_eq!(said(&last), ["9998", "9999"]);
}

#[test]
fn statements_use_the_indexes_that_are_there_for_them() {
    let Some(server) = server() else { return };
    let schema = fresh("plans");
    let options = PostgresOptions::new(server.dsn())
        .schema(&schema)
        .text_search(true);
    let store = PostgresStore::open(options).unwrap();
    server.sql(&fill(&schema));
    for (statement, params, indexes) in sessionlog_postgres::statements(&schema) {
        assert_uses(
            &explained(server, "force_custom_plan", &statement, &params),
            &indexes,
        );
        // One that is prepared may be planned once for all values.
        if sessionlog_postgres::is_prepared(&schema, &statement) {
            let plan = explained(server, "force_generic_plan", &statement, &params);
            assert_uses(&plan, &indexes);
        }
    }

    // And that they find what they should.
    let tail = store.tail("telegram:7", 50).wait().unwrap();
    assert_eq!(tail.last().map(Message::text).unwrap(), "word20000");
    let newest = SessionQuery::new().order(SessionOrder::Updated).limit(2);
    let page = store.sessions(newest.clone()).wait().unwrap();
    let newest_but_one = page.sessions[1].key.clone();
    assert!(["telegram:19999", "telegram:99999"].contains(&&*newest_but_one));
    let page = store
        .sessions(newest.after(page.next.unwrap()))
        .wait()
        .unwrap();
    assert!(["telegram:19998", "telegram:99998"].contains(&&*page.sessions[0].key));
    let found = store.search_words("word19999", 10).wait().unwrap();
    assert_eq!((found.len(), &*found[0].key), (1, "telegram:7"));
    let labelled = SessionQuery::new().label("any").label("label9");
    let page = store.sessions(labelled).wait().unwrap();
    assert_eq!(
        (page.sessions.len(), &*page.sessions[0].key),
        (1, "telegram:9")
    );
    let main = store.resolve_session_key("agent:main:main").wait().unwrap();
    assert_eq!(main.as_deref(), Some("telegram:1"));
}

#[test]
fn appends_update_a_sessions_row_in_place() {
    let Some(server) = server() else { return };
    let schema = fresh("hot");
    let options = PostgresOptions::new(server.dsn()).schema(&schema).lanes(1);
    let store = PostgresStore::open(options).unwrap();
    for n in 0..200 {
        store
            .add_message("a", "user", &n.to_string())
            .wait()
            .unwrap();
    }
    store.close().wait().unwrap();
    let ratio = || {
        let updates = server.sql(&format!(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_all_tables
             WHERE schemaname = '{schema}' AND relname = 'sessions'"
        ));
        let (all, hot) = updates.split_once('|').unwrap();
        (all.parse::<u32>().unwrap(), hot.parse::<u32>().unwrap())
    };
    // Statistics are told when a connection ends, a moment later.
    while ratio().0 < 199 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let (all, hot) = ratio();
    assert!(hot * 10 >= all * 9, "{hot} of {all} updates were in place");
}

#[test]
fn no_index_has_a_column_that_an_append_changes_and_a_long_summary_is_not_written_again() {
    let Some(server) = Cluster::start(&["fsync=off", "autovacuum=off"]) else {
        return;
    };
    let options = PostgresOptions::new(server.dsn()).lanes(1);
    let store = PostgresStore::open(options).unwrap();
    let aliases = vec!["agent:main:telegram:direct:1234567".to_owned()];
    store
        .set_summary("a", &"what was said ".repeat(100))
        .wait()
        .unwrap();
    store
        .upsert_session_meta("a", None, aliases)
        .wait()
        .unwrap();
    // As many as two hundred bytes are as JSON with a role and a time.
    let append = |n: usize| {
        let said = format!("{n:09}{}", "x".repeat(191));
        store.add_message("a", "user", &said).wait().unwrap();
    };
    (0..5).for_each(append);
    let row = "SELECT to_jsonb(s) FROM sessionlog.sessions s";
    let before = server.sql(row);
    // The first change of a page since a checkpoint logs the page.
    server.sql("CHECKPOINT");
    (5..400).for_each(append);
    let logged = || server.sql("SELECT pg_current_wal_insert_lsn() - '0/0'");
    let from: u64 = logged().parse().unwrap();
    (400..600).for_each(append);
    let to: u64 = logged().parse().unwrap();
    let changed = format!(
        "SELECT string_agg(now.key, ' ' ORDER BY now.key) FROM sessionlog.sessions s,
             jsonb_each(to_jsonb(s)) now, jsonb_each('{before}') was
         WHERE now.key = was.key AND now.value <> was.value"
    );
    let changed = server.sql(&changed);
    assert_eq!(
        changed,
        "end_at lines messages updated_at updated_ns version"
    );
    let indexed = "SELECT string_agg(DISTINCT attname, ' ' ORDER BY attname)
        FROM pg_index JOIN pg_attribute ON attrelid = indexrelid
        WHERE indrelid = 'sessionlog.sessions'::regclass";
    assert_eq!(server.sql(indexed), "file_name key session_id whom");
    let each = (to - from) / 200;
    assert!(each <= 1_000, "{each} bytes of WAL for an append");
}

#[test]
fn a_message_of_very_many_words_is_taken_and_indexed_in_part() {
    let Some(server) = server() else { return };
    let schema = fresh("words");
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    let words: Vec<_> = (0..220_000).map(|n| format!("w{n:x}")).collect();
    let words = words.join(" ") + " atlast";
    assert!(words.len() > 1_400_000);
    for index in [false, true, true] {
        let store = PostgresStore::open(options.clone().text_search(index)).unwrap();
        store.add_message("a", "user", &words).wait().unwrap();
        store
            .add_message("b", "user", "w1f is here")
            .wait()
            .unwrap();
        let found = store.search_words("w1f", 9).wait().unwrap();
        assert!(found.iter().any(|hit| hit.key == "a"));
        assert!(found.iter().any(|hit| hit.key == "b"));
        assert!(store.search_words("atlast", 9).wait().unwrap().is_empty());
        store.close().wait().unwrap();
    }
}
