//! Random verbs, carried out by a store of files and by a database: they answer the same and
//! hold the same, bytes included.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use sessionlog::backend::kit;
use sessionlog::scope::SessionScope;
use sessionlog::{
    Appended, BackupLimits, Budget, Error, Fork, Keep, Message, Position, SearchQuery,
    SessionQuery, Store, StoreHandle, StoreOptions, Update, Version,
};
use sessionlog_postgres::{PostgresOptions, PostgresStore};

use crate::support::{fresh, scratch, server};

/// A verb, with what it is given. Keys and ids are few, so that they meet.
#[derive(Clone, Debug)]
enum Step {
    Append(usize, Vec<Said>),
    Once(usize, usize, Said),
    Update(
        usize,
        Option<Said>,
        Option<String>,
        Option<Kept>,
        Option<i64>,
        Expected,
    ),
    Tag(usize, Tagged, Option<Said>),
    Edit(usize, usize, Option<Said>),
    Truncate(usize, usize),
    SetHistory(usize, Vec<Said>),
    Ensure(usize, Option<usize>, Vec<usize>),
    Upsert(usize, Option<usize>, Vec<usize>),
    Promote(usize, Vec<usize>),
    Delete(usize),
    Checkpoint(usize, bool),
    Revert(usize, i64),
    Clear(usize),
    Prompt(usize, String),
    Compact(usize),
    Fork(usize, usize, Ended),
    RestoreBackup(usize, u64),
    PruneBackups(usize, usize),
    Move(usize, usize, bool),
}

/// A title, labels and a pin, as far as they are changed.
type Tagged = (Option<String>, Option<Vec<&'static str>>, Option<bool>);

/// Where a fork ends.
#[derive(Clone, Copy, Debug)]
enum Ended {
    End,
    Checkpoint(i64),
    Message(u64),
}

#[derive(Clone, Debug)]
enum Said {
    User(String),
    Call,
    Result,
    Odd,
    Thought,
}

#[derive(Clone, Copy, Debug)]
enum Kept {
    Last(usize),
    Turns(usize),
    /// Where the window of so many messages begins.
    From(usize),
}

#[derive(Clone, Copy, Debug)]
enum Expected {
    Anything,
    Now,
    Absent,
}

impl Step {
    fn key(&self) -> &'static str {
        match self {
            Self::Append(k, ..)
            | Self::Once(k, ..)
            | Self::Update(k, ..)
            | Self::Tag(k, ..)
            | Self::Edit(k, ..)
            | Self::Truncate(k, ..)
            | Self::SetHistory(k, ..)
            | Self::Ensure(k, ..)
            | Self::Upsert(k, ..)
            | Self::Promote(k, ..)
            | Self::Delete(k)
            | Self::Checkpoint(k, ..)
            | Self::Revert(k, ..)
            | Self::Clear(k)
            | Self::Prompt(k, ..)
            | Self::Compact(k)
            | Self::Fork(_, k, _)
            | Self::RestoreBackup(k, _)
            | Self::PruneBackups(k, _)
            | Self::Move(_, k, _) => KEYS[*k],
        }
    }
}

const LABELS: [&str; 4] = ["x", "y", "nul \0", "nul  "];

const KEYS: [&str; 7] = [
    "cli",
    "telegram:1",
    "agent:main:irc:direct:bob",
    "a_b",
    "a:b",
    " padded",
    "agent:main:main",
];

fn said(said: &Said) -> Message {
    let json: &[u8] = match said {
        Said::User(text) => return Message::user(text.as_str()),
        Said::Call => return Message::assistant("").with_tool_call("c", "f", "{}"),
        Said::Result => return Message::tool("c", "done"),
        Said::Thought => return Message::assistant("").with_reasoning("hm"),
        Said::Odd => br#"{"role":"user","content":"<&>\u2028 \u0000x","n":1.10,"e":1e2,"created_at":"2020-01-01T00:00:00Z"}"#,
    };
    Message::from_json(json).unwrap()
}

fn a_said() -> impl Strategy<Value = Said> {
    prop_oneof![
        4 => "[a-zé\"\\\\ ]{0,12}".prop_map(Said::User),
        1 => Just(Said::Call),
        1 => Just(Said::Result),
        1 => Just(Said::Odd),
        1 => Just(Said::Thought),
    ]
}

fn a_step() -> impl Strategy<Value = Step> {
    let key = 0..KEYS.len();
    let kept = prop_oneof![
        (0_usize..6).prop_map(Kept::Last),
        (0_usize..4).prop_map(Kept::Turns),
        (0_usize..5).prop_map(Kept::From),
    ];
    let expected = prop_oneof![
        Just(Expected::Anything),
        Just(Expected::Now),
        Just(Expected::Absent)
    ];
    let ended = prop_oneof![
        Just(Ended::End),
        (0_i64..3).prop_map(Ended::Checkpoint),
        (0_u64..6).prop_map(Ended::Message),
    ];
    let tagged = (
        prop::option::of("[a-z\0é\"]{0,4}"),
        prop::option::of(prop::collection::vec(prop::sample::select(&LABELS), 0..3)),
        prop::option::of(any::<bool>()),
    );
    let some_said = || prop::collection::vec(a_said(), 0..4);
    let aliases = || prop::collection::vec(0..KEYS.len(), 0..3);
    prop_oneof![
        6 => (key.clone(), some_said()).prop_map(|(k, s)| Step::Append(k, s)),
        3 => (key.clone(), 0_usize..4, a_said()).prop_map(|(k, i, s)| Step::Once(k, i, s)),
        4 => (key.clone(), prop::option::of(a_said()), prop::option::of("[a-z\0]{0,5}"),
              prop::option::of(kept), prop::option::of(0_i64..500), expected)
            .prop_map(|(k, s, y, c, t, e)| Step::Update(k, s, y, c, t, e)),
        4 => (key.clone(), tagged, prop::option::of(a_said()))
            .prop_map(|(k, t, s)| Step::Tag(k, t, s)),
        2 => (key.clone(), 0_usize..4, prop::option::of(a_said()))
            .prop_map(|(k, n, s)| Step::Edit(k, n, s)),
        2 => (key.clone(), 0_usize..5).prop_map(|(k, n)| Step::Truncate(k, n)),
        1 => (key.clone(), some_said()).prop_map(|(k, s)| Step::SetHistory(k, s)),
        2 => (key.clone(), prop::option::of(0_usize..2), aliases())
            .prop_map(|(k, s, a)| Step::Ensure(k, s, claims(k, a))),
        1 => (key.clone(), prop::option::of(0_usize..2), aliases())
            .prop_map(|(k, s, a)| Step::Upsert(k, s, claims(k, a))),
        1 => (key.clone(), aliases()).prop_map(|(k, a)| Step::Promote(k, claims(k, a))),
        1 => key.clone().prop_map(Step::Delete),
        2 => (key.clone(), any::<bool>()).prop_map(|(k, m)| Step::Checkpoint(k, m)),
        2 => (key.clone(), 0_i64..3).prop_map(|(k, i)| Step::Revert(k, i)),
        2 => key.clone().prop_map(Step::Clear),
        1 => (key.clone(), "[a-zé]{0,6}").prop_map(|(k, p)| Step::Prompt(k, p)),
        1 => key.clone().prop_map(Step::Compact),
        2 => (key.clone(), key.clone(), ended).prop_map(|(k, to, at)| Step::Fork(k, to, at)),
        2 => (key.clone(), 0_u64..4).prop_map(|(k, n)| Step::RestoreBackup(k, n)),
        1 => (key.clone(), 0_usize..3).prop_map(|(k, n)| Step::PruneBackups(k, n)),
        3 => (key.clone(), key, any::<bool>()).prop_map(|(k, to, m)| goes_on(k, to, m)),
    ]
}

/// A session gets another key, but not the one that may have no other names: see [`claims`].
fn goes_on(key: usize, to: usize, merge: bool) -> Step {
    let to = if KEYS[to] == "a_b" { 0 } else { to };
    Step::Move(key, to, merge)
}

/// What a session may be called. Of two whose keys would have one file name, only one has other
/// names: in files the older has that file's name, and is asked after the younger; a database
/// goes by their keys.
fn claims(key: usize, aliases: Vec<usize>) -> Vec<usize> {
    if KEYS[key] == "a_b" {
        Vec::new()
    } else {
        aliases
    }
}

/// What takes a session back and forth, of two that are near each other: what was taken back
/// is there to come back.
fn a_step_back() -> impl Strategy<Value = Step> {
    let key = 0..2_usize;
    let ended = prop_oneof![
        1 => Just(Ended::End),
        1 => (0_i64..3).prop_map(Ended::Checkpoint),
        4 => (0_u64..6).prop_map(Ended::Message),
    ];
    let tokens = |k, tokens| {
        let (said, expected) = (Some(Said::Call), Expected::Anything);
        Step::Update(k, said, None, None, Some(tokens), expected)
    };
    prop_oneof![
        4 => (key.clone(), prop::collection::vec(a_said(), 1..4))
            .prop_map(|(k, s)| Step::Append(k, s)),
        2 => (key.clone(), 0_i64..500).prop_map(move |(k, t)| tokens(k, t)),
        2 => (key.clone(), any::<bool>()).prop_map(|(k, m)| Step::Checkpoint(k, m)),
        2 => (key.clone(), 0_usize..4).prop_map(|(k, n)| Step::Truncate(k, n)),
        2 => (key.clone(), 0_i64..3).prop_map(|(k, i)| Step::Revert(k, i)),
        2 => key.clone().prop_map(Step::Clear),
        4 => (key.clone(), 1_u64..5).prop_map(|(k, n)| Step::RestoreBackup(k, n)),
        1 => (key.clone(), 0_usize..3).prop_map(|(k, n)| Step::PruneBackups(k, n)),
        1 => key.clone().prop_map(Step::Compact),
        2 => key.clone().prop_map(Step::Delete),
        4 => (key.clone(), ended).prop_map(|(k, at)| Step::Fork(k, 1 - k, at)),
        3 => (key, any::<bool>()).prop_map(|(k, m)| Step::Move(k, 1 - k, m)),
    ]
}

fn scope(which: usize) -> SessionScope {
    SessionScope {
        version: 1,
        agent_id: "main".into(),
        channel: "irc".into(),
        account: "default".into(),
        dimensions: vec!["sender".into()],
        values: BTreeMap::from([("sender".to_owned(), format!("bob{which}"))]),
    }
}

/// Carries a step out in one store; what it answers, without what each store numbers by
/// itself.
macro_rules! carry_out {
    ($store:expr, $step:expr) => {{
        let (store, key) = ($store, |k: &usize| KEYS[*k]);
        let names = |which: &[usize]| which.iter().map(|k| KEYS[*k].to_owned()).collect();
        let raw = |which: &Option<usize>| which.map(|which| scope(which).to_raw());
        match $step {
            Step::Append(k, s) => plain(
                store
                    .append_all(key(k), s.iter().map(said).collect())
                    .wait(),
            ),
            Step::Once(k, id, s) => {
                let messages = vec![said(s)];
                let told = store
                    .append_once(key(k), &format!("id{id}"), messages)
                    .wait();
                plain(told.map(|told| matches!(told, Appended::New(_))))
            }
            Step::Update(k, s, summary, kept, tokens, expected) => {
                let mut update = Update::new();
                if let Some(s) = s {
                    update = update.append(said(s));
                }
                if let Some(summary) = summary {
                    update = update.summary(summary.as_str());
                }
                if let Some(tokens) = tokens {
                    update = update.tokens(*tokens);
                }
                match kept {
                    Some(Kept::Last(n)) => update = update.keep(Keep::Last(*n)),
                    Some(Kept::Turns(n)) => update = update.keep(Keep::Turns(*n)),
                    Some(Kept::From(n)) => {
                        let budget = Budget::unlimited().messages(*n);
                        let window = store.window(key(k), budget).wait().unwrap();
                        if window.version != Version::ABSENT {
                            update = update.keep(Keep::From(window.start));
                        }
                    }
                    None => {}
                }
                let now = store.snapshot(key(k)).wait().unwrap().version();
                match expected {
                    Expected::Anything => {}
                    Expected::Now => update = update.expect(now),
                    Expected::Absent => update = update.expect(Version::ABSENT),
                }
                let told = store.update(key(k), update).wait();
                plain(told.map(|version| version == now))
            }
            Step::Tag(k, (title, labels, pinned), s) => {
                let mut update = Update::new();
                if let Some(title) = title {
                    update = update.title(title);
                }
                if let Some(labels) = labels {
                    update = update.labels(labels.iter().copied());
                }
                if let Some(pinned) = pinned {
                    update = update.pinned(*pinned);
                }
                if let Some(s) = s {
                    update = update.append(said(s));
                }
                plain(store.update(key(k), update).wait().map(drop))
            }
            Step::Edit(k, n, s) => {
                let snapshot = store.snapshot(key(k)).wait().unwrap();
                let page = snapshot.before(snapshot.end(), 4).wait().unwrap();
                let at = page.positions.get(*n).copied();
                let at = at.unwrap_or_else(|| snapshot.end());
                let told = match s {
                    Some(s) => store.edit(key(k), at, said(s)).wait(),
                    None => store.remove(key(k), at).wait(),
                };
                plain(told.map(drop))
            }
            Step::Truncate(k, n) => plain(store.truncate_history(key(k), *n).wait()),
            Step::SetHistory(k, s) => plain(
                store
                    .set_history(key(k), s.iter().map(said).collect())
                    .wait(),
            ),
            Step::Ensure(k, s, a) => plain(
                store
                    .ensure_session_metadata(key(k), raw(s), names(a))
                    .wait(),
            ),
            Step::Upsert(k, s, a) => {
                plain(store.upsert_session_meta(key(k), raw(s), names(a)).wait())
            }
            Step::Promote(k, a) => {
                plain(store.promote_alias_history(key(k), None, names(a)).wait())
            }
            Step::Delete(k) => plain(store.delete_session(key(k)).wait()),
            Step::Checkpoint(k, m) => plain(store.context(key(k)).checkpoint(*m).wait()),
            Step::Revert(k, id) => plain(store.context(key(k)).revert_to(*id).wait()),
            Step::Clear(k) => plain(store.context(key(k)).clear().wait()),
            Step::Prompt(k, p) => plain(store.context(key(k)).write_system_prompt(p).wait()),
            Step::Compact(k) => plain(store.compact(key(k)).wait()),
            Step::Fork(k, to, at) => {
                let at = match at {
                    Ended::End => Fork::End,
                    Ended::Checkpoint(id) => Fork::Checkpoint((*id).into()),
                    Ended::Message(n) => Fork::Message(*n),
                };
                plain(store.fork_session(key(k), key(to), at).wait())
            }
            Step::RestoreBackup(k, n) => plain(store.restore_backup(key(k), *n).wait()),
            Step::PruneBackups(k, n) => {
                let limits = BackupLimits::new().count(*n);
                plain(store.prune_backups(key(k), limits).wait())
            }
            Step::Move(k, to, merge) if *merge => {
                plain(store.merge_session(key(k), key(to)).wait())
            }
            Step::Move(k, to, _) => plain(store.rename_session(key(k), key(to)).wait()),
        }
    }};
}

/// An answer as both stores give it.
fn plain<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    match answer {
        Err(Error::VersionConflict { key, .. }) => format!("changed: {key}"),
        // A session is told by its key, or by the alias that was given.
        Err(Error::PositionNotFound { .. }) => "no such position".into(),
        other => format!("{other:?}"),
    }
}

/// All that there is to see of a session, without times and numbers of each store's own.
/// Whether a session has no control records. A compaction of files carries along what hidden
/// ones say, as lines that are not hidden; a database leaves them where they are.
macro_rules! is_plain {
    ($store:expr, $key:expr) => {{
        let context = $store.context($key);
        context.n_checkpoints().wait().unwrap() == 0
            && context.usage_history().wait().unwrap().is_empty()
            && context.system_prompt().wait().unwrap().is_none()
    }};
}

macro_rules! seen {
    ($store:expr, $key:expr) => {{
        let (store, key) = ($store, $key);
        let context = store.context(key);
        let snapshot = store.snapshot(key).wait().unwrap();
        let page = snapshot.before(snapshot.end(), 2).wait().unwrap();
        let window = store
            .window(key, Budget::unlimited().messages(3))
            .wait()
            .unwrap();
        let meta = store.session_meta(key).wait().unwrap();
        let ends = |at: Position| at == window.start;
        let lines = is_plain!(store, key).then_some(meta.count - meta.skip);
        (
            (
                timeless(&store.history(key).wait().unwrap()),
                timeless(&store.tail(key, 2).wait().unwrap()),
                timeless(&page.messages),
                (page.is_first, store.count(key).wait().unwrap()),
                timeless(&window.messages),
                (
                    window.omitted,
                    window.is_partial,
                    window.tokens,
                    ends(snapshot.end()),
                ),
                window.system_prompt,
            ),
            (
                store.resolve_session_key(key).wait().unwrap(),
                (meta.key, meta.summary, lines),
                meta.scope.map(|scope| scope.get().to_owned()),
                (meta.aliases, meta.tags),
            ),
            (
                store.checkpoints(key).wait().unwrap(),
                context.token_count().wait().unwrap(),
                context.token_count_with_pending().wait().unwrap(),
                context.n_checkpoints().wait().unwrap(),
                context.system_prompt().wait().unwrap(),
            ),
            // How long they are differs by what was compacted before they were made.
            store
                .list_backups(key)
                .wait()
                .unwrap()
                .into_iter()
                .map(|backup| (backup.number, backup.reason))
                .collect::<Vec<_>>(),
        )
    }};
}

/// Messages as JSON, the time of the call left out: what came with one keeps it.
fn timeless(messages: &[Message]) -> Vec<String> {
    let text = |message: &Message| {
        let text = serde_json::to_string(message).unwrap();
        match message.created_at() {
            Some(time) if !time.starts_with("2020") => text.replace(time, "now"),
            _ => text,
        }
    };
    messages.iter().map(text).collect()
}

/// A database compacts in the transaction that hides most of the lines. Files that wait for a
/// background thread would have lines left to make a backup of, where the database has none.
fn compact_as_a_database_does(chats: &StoreHandle, key: &str) {
    let meta = chats.session_meta(key).wait().unwrap();
    if meta.skip > meta.count - meta.skip {
        chats.compact(key).wait().unwrap();
    }
}

fn run(steps: &[Step]) {
    let Some(server) = server() else { return };
    let dir = scratch();
    let files = Store::open_with(dir.path(), StoreOptions::new().auto_compact(false)).unwrap();
    let options = PostgresOptions::new(server.dsn())
        .schema(fresh("model"))
        .lanes(1);
    let database = PostgresStore::open(options).unwrap();
    let chats: StoreHandle = files.handle();
    for (n, step) in steps.iter().enumerate() {
        let told = carry_out!(&chats, step);
        compact_as_a_database_does(&chats, step.key());
        assert_eq!(carry_out!(&database, step), told, "{n}: {step:?}");
        let sees_all = n + 1 == steps.len() || matches!(step, Step::Move(..));
        for key in KEYS
            .into_iter()
            .filter(|key| sees_all || *key == step.key())
        {
            assert_eq!(
                seen!(&database, key),
                seen!(&chats, key),
                "{key:?} after {n}: {step:?}"
            );
        }
    }
    let query = SessionQuery::new();
    let (of_database, of_files) = (
        database.sessions(query.clone()).wait().unwrap(),
        chats.sessions(query).wait().unwrap(),
    );
    let told = |page: &sessionlog::SessionPage| {
        let sessions = page.sessions.iter().map(|one| {
            (
                one.key.clone(),
                one.first_text.clone(),
                one.last_text.clone(),
                is_plain!(chats.exact_keys(), &one.key).then_some(one.lines),
                (one.title.clone(), one.labels.clone(), one.pinned),
            )
        });
        // Of keys that would have one file name, the directory lists the older one first.
        sessions.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(told(&of_database), told(&of_files));
    let labelled = LABELS.map(|label| SessionQuery::new().label(label));
    let tagged = labelled.into_iter().chain([
        SessionQuery::new().pinned(),
        SessionQuery::new().label("x").label("y"),
        SessionQuery::new().label("x").pinned(),
    ]);
    for query in tagged {
        let keys = |page: sessionlog::SessionPage| {
            let keys = page.sessions.into_iter().map(|one| one.key);
            keys.collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(
            keys(database.sessions(query.clone()).wait().unwrap()),
            keys(chats.sessions(query).wait().unwrap())
        );
    }
    for query in [
        SearchQuery::new().text("a"),
        SearchQuery::new().regex("[aé]+").role("user"),
        SearchQuery::new().text("E").ignore_case(true),
        SearchQuery::new().text("\0"),
        SearchQuery::new().text("a").summaries(true),
        SearchQuery::new()
            .regex("[aé\0]")
            .summaries(true)
            .tool_calls(true),
        SearchQuery::new().text("f").tool_calls(true),
        SearchQuery::new().text("a").summaries(true).role("user"),
        SearchQuery::new()
            .text("a")
            .summaries(true)
            .among(SessionQuery::new().pinned()),
    ] {
        let found = |mut search: sessionlog::Search| {
            let hits = std::iter::from_fn(|| search.wait_next());
            let mut hits: Vec<_> = hits
                .map(|hit| {
                    hit.map(|hit| (hit.key, hit.found_in, hit.matched.start, hit.matched.end))
                        .unwrap()
                })
                .collect();
            hits.sort_by(|a, b| a.0.cmp(&b.0));
            hits
        };
        assert_eq!(
            found(database.search(query.clone())),
            found(chats.search(query))
        );
    }
    // And as bytes: control records, unknown fields, the texts of numbers.
    for key in database.list_sessions().wait().unwrap() {
        let lines = kit::lines_of(&chats.exact_keys(), &key).wait().unwrap();
        let lines = String::from_utf8(lines).unwrap();
        assert!(
            !lines.contains("1.1,") && !lines.contains("100.0"),
            "{lines}"
        );
    }
    files.close().unwrap();
}

#[test]
fn a_session_whose_key_becomes_an_alias_is_listed_as_itself() {
    let hidden = Step::Update(2, None, None, Some(Kept::Last(0)), None, Expected::Anything);
    run(&[
        Step::Checkpoint(2, false),
        hidden,
        Step::Ensure(3, None, vec![2]),
    ]);
}

/// Its line, which says that it is lost, is longer than before.
#[test]
fn positions_behind_a_checkpoint_that_a_merge_lost_are_where_lines_stand() {
    run(&[
        Step::Checkpoint(0, false),
        Step::Fork(0, 1, Ended::Message(0)),
        Step::Move(0, 1, false),
    ]);
}

proptest! {
    #![proptest_config(ProptestConfig {
        // The quick run is the same each time, the long one is not.
        cases: std::env::var("SESSIONLOG_LONG").map_or(40, |_| 400),
        rng_seed: std::env::var("SESSIONLOG_LONG")
            .map_or(RngSeed::Fixed(1), |_| RngSeed::Random),
        max_shrink_iters: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_database_goes_back_and_forth_as_files_do(
        steps in prop::collection::vec(a_step_back(), 1..32)
    ) {
        run(&steps);
    }

    #[test]
    fn a_database_does_what_files_do(steps in prop::collection::vec(a_step(), 1..24)) {
        run(&steps);
    }
}
