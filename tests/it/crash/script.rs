//! The scripts: short, and each about one way in which files change.

use std::time::Duration;

use sessionlog::{Durability, StoreOptions};

use crate::crash::model::{Act, State, Update};

/// A command, and the session it is for.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) key: &'static str,
    pub(crate) act: Act,
    pub(crate) level: Durability,
}

/// One move of whoever uses the store.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Submit all of these at once and wait for every answer.
    Do(Vec<Op>),
    /// Submit them and go on.
    Start(Vec<Op>),
    Flush,
    StartFlush,
    /// As an erasure does after its sessions are deleted.
    StartPurge,
    /// Do nothing for so long.
    Pause(Duration),
    /// Close and open again.
    Reopen,
    /// The process dies and comes back.
    Restart,
    /// The disk has room for so many bytes more.
    Fill(u64),
    /// It has room without end again.
    Free,
}

/// A script, on what it runs and how.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) steps: Vec<Step>,
    pub(crate) options: StoreOptions,
    /// Files of another program that were there before, and what their
    /// sessions hold.
    pub(crate) foreign: Vec<(String, String)>,
    pub(crate) start: Vec<(&'static str, State)>,
    /// Whether the first open is enumerated too.
    pub(crate) from_nothing: bool,
    /// Whether commands may be refused for want of space.
    pub(crate) fills: bool,
    /// Orders in which the parts of the engine go on.
    pub(crate) schedules: u64,
    /// Whether only those count in which a sidecar is replaced.
    pub(crate) replaces: bool,
}

/// All of them.
pub(crate) fn all() -> Vec<Script> {
    let mut all = appends();
    all.extend(buffered_writes());
    all.extend(truncations());
    all.extend(updates());
    all.extend(onces());
    all.extend(rewrites());
    all.extend(moves());
    all.extend(conversations());
    all.extend(backups());
    all.extend(sidecars());
    all.extend(flushes());
    all.extend(purges());
    all.extend(archives());
    all.extend(beside_flushes());
    all.extend(openings());
    all.extend(full_disks());
    all.extend(combinations());
    all
}

fn appends() -> Vec<Script> {
    vec![
        script(
            "append",
            vec![
                wait([add("a", "one")]),
                wait([add("a", "two"), add("a", "three")]),
                wait([long("a", "four", 3000)]),
                wait([add("a", "five")]),
            ],
        ),
        script(
            "append_all",
            vec![
                wait([append("a", ["one", "two", "three"])]),
                wait([append("a", ["four", "five"]), add("b", "six")]),
                wait([long("a", "seven", 5000), append("a", ["eight", "nine"])]),
            ],
        ),
        script(
            "counts_of_more_digits",
            vec![
                wait([long_summary("b", 430), add("a", "one"), add("b", "one")]),
                Step::Flush,
                wait(["a", "b"].map(|key| append(key, ["more"; 101]))),
                Step::Flush,
                wait([add("a", "last")]),
            ],
        ),
        script(
            "many_sessions",
            vec![
                wait(KEYS.map(|key| add(key, "one"))),
                wait(KEYS.map(|key| append(key, ["two", "three"]))),
                Step::Flush,
                wait(KEYS.map(|key| add(key, "four"))),
                wait([truncate(KEYS[0], 1), add(KEYS[1], "five")]),
            ],
        )
        .schedules(1),
        script(
            "rotation",
            vec![
                wait([long("a", "one", 1500)]),
                wait([long("a", "two", 1500), long("b", "three", 1500)]),
                wait([long("b", "four", 1500)]),
                Step::Flush,
                wait([long("a", "five", 1500), buffered(long("b", "six", 900))]),
                wait([long("b", "seven", 1500)]),
                wait([long("a", "eight", 1500)]),
                Step::Flush,
                wait([long("a", "nine", 9000)]),
                wait([long("b", "ten", 1500)]),
            ],
        ),
        script(
            "few_open_files",
            vec![
                wait(NEIGHBOURS.map(|key| add(key, "one"))),
                wait(NEIGHBOURS.map(|key| append(key, ["two", "three"]))),
                wait([truncate(NEIGHBOURS[0], 1), add(NEIGHBOURS[1], "four")]),
                Step::Flush,
                wait(NEIGHBOURS.map(|key| add(key, "five"))),
            ],
        )
        .options(|options| options.max_open_files(1)),
    ]
}

fn buffered_writes() -> Vec<Script> {
    vec![
        script(
            "mixed_durability",
            vec![
                wait([buffered(add("a", "one"))]),
                wait([buffered(add("a", "two")), add("b", "three")]),
                wait([buffered(add("a", "four")), buffered(add("c", "five"))]),
                wait([buffered(summary("a", "sum")), add("a", "six")]),
                wait([buffered(add("b", "seven"))]),
                Step::Flush,
                wait([buffered(add("b", "eight"))]),
                Step::Pause(Duration::from_millis(700)),
                wait([buffered(add("c", "nine")), buffered(summary("c", "more"))]),
            ],
        ),
        script(
            "buffered_sidecars",
            vec![
                wait([buffered(add("a", "one"))]),
                Step::StartFlush,
                wait([buffered(summary("a", "sum")), buffered(add("a", "two"))]),
                Step::StartFlush,
                wait([buffered(add("a", "three")), truncate("a", 1)]),
                Step::Flush,
                wait([
                    buffered(summary("a", "other")),
                    buffered(summary("b", "new")),
                ]),
                Step::Flush,
            ],
        )
        .schedules(4),
        script(
            "buffered_then_flush",
            vec![
                wait([buffered(add("a", "one")), buffered(summary("a", "sum"))]),
                Step::Flush,
                Step::Flush,
                wait([buffered(add("a", "two")), buffered(summary("a", "more"))]),
                Step::Flush,
                Step::Flush,
                wait([buffered(add("a", "three")), buffered(summary("a", "less"))]),
                Step::Pause(Duration::from_millis(200)),
                wait([add("b", "four")]),
                Step::Pause(Duration::from_millis(300)),
                wait([buffered(add("b", "five")), buffered(summary("b", "sum"))]),
                Step::Pause(Duration::from_millis(100)),
                Step::Flush,
            ],
        )
        .schedules(6),
    ]
}

fn truncations() -> Vec<Script> {
    vec![
        script(
            "truncate",
            vec![
                wait([append("a", ["one", "two", "three", "four", "five"])]),
                wait([truncate("a", 2)]),
                wait([add("a", "six")]),
                wait([truncate("a", 0), add("a", "seven")]),
                wait([add("a", "eight"), truncate("a", 1), truncate("none", 3)]),
            ],
        )
        .options(|options| options.auto_compact(false)),
        script(
            "truncate_and_compact",
            vec![
                wait([append("a", ["one", "two", "three", "four"])]),
                wait([truncate("a", 1)]),
                wait([compact("a")]),
                wait([add("a", "five")]),
                wait([truncate("a", 1), compact("a"), add("a", "six")]),
                wait([truncate("a", 0)]),
                wait([compact("a")]),
                wait([add("a", "seven")]),
            ],
        )
        .options(|options| options.auto_compact(false)),
        script(
            "compaction_by_itself",
            vec![
                wait([append("a", ["one", "two", "three", "four", "five"])]),
                wait([truncate("a", 1), add("a", "six")]),
                wait([add("a", "seven"), add("b", "eight")]),
                Step::Pause(Duration::from_millis(800)),
                wait([add("a", "nine")]),
            ],
        ),
        script(
            "appends_during_compaction",
            vec![
                wait([
                    append("a", ["one", "two", "three"]),
                    long("a", "four", 4000),
                ]),
                wait([truncate("a", 2)]),
                Step::Start(vec![compact("a")]),
                wait([add("a", "five"), add("b", "six")]),
                wait([long("a", "seven", 2000)]),
                wait([add("a", "eight"), compact("a"), add("a", "nine")]),
            ],
        )
        .options(|options| options.auto_compact(false))
        .schedules(5),
    ]
}

fn updates() -> Vec<Script> {
    vec![
        script(
            "update",
            vec![
                wait([append("a", ["one", "two", "three", "four", "five"])]),
                wait([update("a", ["six"], "sum", Some(2), None)]),
                wait([add("a", "seven"), update("a", [], "more", Some(1), Some(9))]),
                Step::Flush,
                wait([update("a", ["eight"], "less", None, Some(12))]),
                wait([buffered(update("a", ["nine"], "", None, None))]),
                wait([
                    update("a", ["ten"], "new", Some(0), None),
                    add("a", "eleven"),
                ]),
                wait([update("b", ["twelve"], "made", Some(3), Some(1))]),
            ],
        )
        .options(|options| options.auto_compact(false))
        .schedules(2),
        script(
            "update_and_compact",
            vec![
                wait([append("a", ["one", "two", "three", "four"])]),
                wait([update("a", ["five"], "sum", Some(1), None)]),
                wait([
                    add("a", "six"),
                    update("a", ["seven"], "sum", Some(1), None),
                ]),
                Step::StartFlush,
                wait([update("a", ["eight"], "other", Some(0), None), delete("a")]),
                wait([update("a", ["nine"], "again", None, None)]),
            ],
        )
        .schedules(3),
    ]
}

fn onces() -> Vec<Script> {
    vec![
        script(
            "once",
            vec![
                wait([once("a", "1", "one"), once("a", "1", "one again")]),
                wait([once("b", "1", "two"), buffered(once("a", "2", "three"))]),
                wait([add("a", "four"), once("a", "2", "three again")]),
                Step::Flush,
                wait([once("a", "1", "one again"), once("a", "3", "five")]),
                Step::Reopen,
                wait([once("a", "3", "five again"), once("b", "1", "two again")]),
                wait([once("a", "4", "six"), truncate("a", 1)]),
                Step::Restart,
                wait([once("a", "4", "six again"), once("a", "5", "seven")]),
            ],
        )
        .schedules(2),
        script(
            "once_and_rewrites",
            vec![
                wait([
                    once("a", "1", "one"),
                    once("a", "2", "two"),
                    add("a", "three"),
                ]),
                wait([truncate("a", 1), compact("a"), once("a", "1", "one again")]),
                Step::Flush,
                wait([set_history("a", ["four"]), once("a", "2", "two again")]),
                wait([clear("a"), once("a", "1", "one again")]),
                wait([once("a", "3", "five"), delete("a"), once("a", "3", "six")]),
                Step::Flush,
                wait([delete("a")]),
                wait([once("a", "1", "seven")]),
            ],
        )
        .options(|options| options.auto_compact(false))
        .schedules(2),
        script(
            "many_once",
            vec![
                Step::Do(
                    (0..20)
                        .map(|n| once("a", &format!("a{n}"), "one"))
                        .collect(),
                ),
                Step::Flush,
                Step::Do(
                    (0..14)
                        .map(|n| once("a", &format!("b{n}"), "two"))
                        .collect(),
                ),
                wait([once("b", "1", "three"), once("a", "b13", "two again")]),
                Step::Flush,
                wait([once("a", "b13", "two again"), once("a", "last", "four")]),
            ],
        )
        .options(|options| options.once_ids(16))
        .schedules(1),
    ]
}

fn rewrites() -> Vec<Script> {
    vec![
        script(
            "set_history",
            vec![
                wait([append("a", ["one", "two"]), summary("a", "sum")]),
                wait([set_history("a", ["three"])]),
                wait([add("a", "four")]),
                wait([set_history("a", ["five", "six"]), add("a", "seven")]),
                wait([set_history("b", ["eight"]), set_history("b", [])]),
                wait([add("b", "nine")]),
            ],
        ),
        script(
            "delete",
            vec![
                wait([add("a", "one"), summary("a", "sum"), add("b", "two")]),
                wait([delete("a")]),
                wait([add("c", "three"), delete("c")]),
                Step::Flush,
                wait([delete("b"), delete("none")]),
                Step::Flush,
            ],
        ),
        script(
            "delete_and_recreate",
            vec![
                wait([append("a", ["one", "two"]), summary("a", "sum")]),
                Step::Flush,
                wait([delete("a")]),
                wait([add("a", "three")]),
                wait([delete("a"), add("a", "four"), delete("a")]),
                wait([summary("a", "again")]),
                Step::Flush,
                wait([delete("a"), set_history("a", ["five", "six"])]),
                wait([delete("a"), add("a", "seven")]),
            ],
        ),
        script(
            "promote",
            vec![
                wait([append("old", ["one", "two"]), summary("old", "sum")]),
                wait([promote("new", "old")]),
                wait([add("new", "three"), add("old", "four")]),
                wait([promote("new", "old")]),
                wait([aliases("other", ["x", "y"])]),
                wait([promote("other", "old"), add("other", "five")]),
            ],
        ),
        script(
            "rewrites_in_a_row",
            vec![
                wait([append("a", ["one", "two", "three"])]),
                wait([truncate("a", 1), compact("a"), set_history("a", ["four"])]),
                wait([set_history("a", ["five", "six", "seven"]), truncate("a", 1)]),
                Step::Start(vec![compact("a")]),
                wait([delete("a"), set_history("a", ["eight"]), compact("a")]),
                wait([truncate("a", 0), add("a", "nine")]),
            ],
        )
        .schedules(4),
    ]
}

fn moves() -> Vec<Script> {
    vec![
        script(
            "rename",
            vec![
                wait([
                    once("a", "1", "first"),
                    append("a", ["two"]),
                    summary("a", "sum"),
                    aliases("a", ["x"]),
                ]),
                wait([
                    clear("a"),
                    once("a", "2", "one"),
                    append("a", ["two", "three"]),
                ]),
                wait([truncate("a", 2)]),
                wait([goes_on("b", "a")]),
                wait([add("b", "four"), once("b", "1", "again")]),
                Step::Flush,
                wait([add("b", "five")]),
            ],
        )
        .options(|options| options.auto_compact(false)),
        script(
            "rename_where_one_was_deleted",
            vec![
                wait([once("b", "1", "other"), clear("b")]),
                wait([
                    append("a", ["one", "two"]),
                    clear("a"),
                    once("a", "2", "three"),
                ]),
                Step::Flush,
                wait([delete("b")]),
                wait([goes_on("b", "a"), add("c", "beside")]),
                wait([long("b", "four", 1500)]),
            ],
        )
        .schedules(2),
        script(
            "rename_and_back",
            vec![
                wait([append(NEIGHBOURS[0], ["one", "two"])]),
                wait([goes_on(NEIGHBOURS[1], NEIGHBOURS[0])]),
                wait([goes_on(NEIGHBOURS[2], NEIGHBOURS[1])]),
                wait([add(NEIGHBOURS[2], "three")]),
                Step::Restart,
                wait([add(NEIGHBOURS[2], "four")]),
            ],
        ),
        script(
            "merge",
            vec![
                wait([
                    once("a", "1", "one"),
                    append("a", ["two", "three"]),
                    summary("a", "older"),
                ]),
                wait([clear("a"), append("a", ["four", "five"]), truncate("a", 1)]),
                wait([
                    once("b", "9", "six"),
                    summary("b", "newer"),
                    aliases("b", ["y"]),
                ]),
                wait([
                    clear("b"),
                    append("b", ["seven", "eight"]),
                    truncate("b", 1),
                ]),
                Step::StartFlush,
                wait([goes_on("b", "a")]),
                wait([add("b", "nine")]),
                Step::Flush,
                wait([once("b", "1", "again"), once("b", "9", "again")]),
            ],
        )
        .options(|options| options.auto_compact(false))
        .schedules(3),
        script(
            "rename_with_an_archive",
            vec![
                wait([append("a", ["one", "two", "three"]), truncate("a", 1)]),
                wait([compact("a")]),
                wait([
                    append("b", ["four", "five"]),
                    truncate("b", 1),
                    compact("b"),
                ]),
                wait([goes_on("b", "a")]),
                wait([add("b", "six")]),
                Step::Flush,
            ],
        )
        .options(|options| options.auto_compact(false).archive(true)),
    ]
}

fn conversations() -> Vec<Script> {
    vec![
        script(
            "checkpoint_and_revert",
            vec![
                wait([add("a", "one"), checkpoint("a"), add("a", "two")]),
                wait([usage("a", 5), checkpoint("a")]),
                wait([long("a", "three", 2000), revert("a", 1)]),
                wait([add("a", "four"), add("b", "five")]),
                wait([checkpoint("a"), add("a", "six"), revert("a", 1)]),
                wait([revert("a", 0)]),
                wait([add("a", "seven")]),
            ],
        )
        .schedules(3),
        script(
            "revert_between_flushes",
            vec![
                wait([append("a", ["one", "two"]), checkpoint("a")]),
                Step::Flush,
                wait([append("a", ["three"]), revert("a", 0)]),
                wait([add("a", "four")]),
                Step::Flush,
                wait([checkpoint("a"), add("a", "five")]),
                Step::StartFlush,
                wait([revert("a", 0), add("a", "six"), add("b", "seven")]),
                Step::Flush,
            ],
        )
        .schedules(4),
        script(
            "clear_and_restore",
            vec![
                wait([append("a", ["one", "two"]), checkpoint("a"), usage("a", 3)]),
                wait([clear("a")]),
                wait([restore("a", 1)]),
                wait([add("a", "three"), revert("a", 0)]),
                wait([clear("a"), add("a", "four"), restore("a", 2)]),
                Step::Flush,
                wait([restore("a", 1), add("a", "five")]),
            ],
        )
        .schedules(3),
        script(
            "fork",
            vec![
                wait([append("a", ["one", "two"]), summary("a", "sum")]),
                wait([checkpoint("a"), usage("a", 9)]),
                wait([fork("b", "a")]),
                wait([add("a", "three"), add("b", "four"), revert("b", 0)]),
                wait([delete("a"), add("b", "five")]),
                wait([fork("a", "b")]),
                wait([clear("b"), add("a", "six")]),
            ],
        ),
        script(
            "conversation_in_company",
            vec![
                wait([append("a", ["one", "two"]), checkpoint("a")]),
                wait([
                    set_history("a", ["three"]),
                    checkpoint("a"),
                    add("a", "four"),
                ]),
                wait([revert("a", 0), set_history("a", ["five"]), clear("a")]),
                wait([
                    add("a", "six"),
                    checkpoint("a"),
                    buffered(add("a", "seven")),
                ]),
                wait([clear("a"), delete("a")]),
                wait([add("a", "eight"), checkpoint("a"), clear("a")]),
                Step::Restart,
                wait([restore("a", 1)]),
                Step::Reopen,
                wait([delete("a")]),
            ],
        )
        .schedules(3),
    ]
}

fn backups() -> Vec<Script> {
    vec![
        script(
            "backups_and_compactions",
            vec![
                wait([append("a", ["one", "two", "three"]), checkpoint("a")]),
                wait([
                    buffered(add("a", "four")),
                    revert("a", 0),
                    buffered(usage("a", 4)),
                ]),
                wait([
                    truncate("a", 1),
                    compact("a"),
                    checkpoint("a"),
                    buffered(add("a", "five")),
                ]),
                wait([
                    revert("a", 0),
                    add("a", "six"),
                    truncate("a", 1),
                    compact("a"),
                ]),
                wait([clear("a"), restore("a", 2), truncate("a", 0), compact("a")]),
                Step::StartFlush,
                wait([
                    clear("a"),
                    buffered(add("a", "eight")),
                    delete("a"),
                    add("a", "nine"),
                ]),
                wait([clear("a"), restore("a", 1)]),
            ],
        )
        .options(|options| options.auto_compact(false)),
        script(
            "backups_of_buffered_lines",
            vec![
                wait([
                    buffered(append("a", ["one", "two"])),
                    buffered(checkpoint("a")),
                    buffered(usage("a", 3)),
                ]),
                wait([fork("b", "a"), buffered(add("a", "three"))]),
                Step::StartFlush,
                wait([
                    revert("a", 0),
                    buffered(checkpoint("a")),
                    buffered(add("a", "four")),
                ]),
                Step::StartFlush,
                wait([revert("b", 0), buffered(add("b", "five"))]),
                wait([
                    buffered(checkpoint("b")),
                    clear("b"),
                    restore("b", 1),
                    restore("a", 1),
                ]),
                Step::Restart,
                wait([buffered(checkpoint("b")), add("b", "six"), clear("b")]),
                Step::Restart,
                wait([clear("a"), add("a", "seven")]),
            ],
        ),
    ]
}

fn sidecars() -> Vec<Script> {
    vec![
        script(
            "set_summary",
            vec![
                wait([summary("a", "a first summary")]),
                wait([add("a", "one"), summary("a", "short")]),
                Step::Flush,
                wait([summary("a", "a longer summary than the one before")]),
                Step::Flush,
                wait([add("a", "two"), summary("a", "s")]),
                Step::Pause(Duration::from_millis(600)),
                wait([long_summary("a", 2000), summary("b", "other")]),
                Step::Pause(Duration::from_millis(600)),
                wait([summary("a", "end")]),
                Step::Flush,
            ],
        ),
        script(
            "summary_and_truncate",
            vec![
                wait([append("a", ["one", "two", "three"]), summary("a", "1")]),
                Step::Flush,
                wait([summary("a", "two of three"), truncate("a", 1)]),
                wait([add("a", "four"), aliases("a", ["x"])]),
                Step::Flush,
                wait([summary("a", ""), truncate("a", 0), add("a", "five")]),
                Step::Pause(Duration::from_millis(600)),
            ],
        ),
        script(
            "edits",
            vec![
                wait([append("a", ["one", "two", "three"])]),
                wait([edit("a", 1, Some("2"))]),
                Step::Flush,
                wait([append("a", ["four", "five"]), summary("a", "s")]),
                wait([edit("a", 0, None)]),
                wait([long("a", "six", 70_000)]),
                wait([edit("a", 1, Some("4"))]),
                Step::Flush,
                wait([truncate("a", 2)]),
                wait([edit("a", 1, None)]),
                wait([compact("a")]),
                wait([add("a", "seven")]),
            ],
        ),
        script(
            "titles",
            vec![
                wait([title("a", "first"), add("a", "one"), add("b", "two")]),
                Step::Flush,
                wait([title("a", "a longer one"), buffered(title("b", "b"))]),
                wait([set_history("a", ["three"]), add("b", "four")]),
                Step::Flush,
                wait([title("a", ""), fork("c", "b"), truncate("b", 1)]),
                wait([compact("b"), buffered(title("c", "c"))]),
                Step::Reopen,
                wait([delete("b"), title("a", "again")]),
                wait([add("b", "five")]),
                Step::Flush,
            ],
        ),
    ]
}

fn purges() -> Vec<Script> {
    vec![
        script(
            "purge",
            vec![
                wait([long("a", "one", 1500), long("b", "two", 1500)]),
                Step::Flush,
                wait([long("a", "three", 3000), add("b", "four"), delete("a")]),
                Step::StartPurge,
                wait([add("b", "five")]),
                wait([add("a", "six"), long("b", "seven", 1500)]),
                Step::StartPurge,
                Step::Flush,
            ],
        )
        .schedules(2),
        script(
            "purge_beside_writes",
            vec![
                wait([add("a", "one"), buffered(add("b", "two"))]),
                Step::StartPurge,
                Step::Start(vec![long("a", "three", 3000), buffered(add("b", "four"))]),
                wait([truncate("b", 1), long("a", "five", 6000)]),
                Step::StartPurge,
                Step::StartPurge,
                wait([delete("b"), add("a", "six")]),
                Step::Flush,
            ],
        )
        .schedules(4),
    ]
}

/// What is dropped is kept: see `tests/it/verbs/archiving.rs` for what is in it.
fn archives() -> Vec<Script> {
    vec![
        script(
            "archive",
            vec![
                wait([append("a", ["one", "two", "three"]), truncate("a", 1)]),
                wait([compact("a")]),
                wait([
                    append("a", ["four", "five"]),
                    truncate("a", 1),
                    compact("a"),
                ]),
                wait([delete("a")]),
                wait([
                    append("a", ["six", "seven"]),
                    truncate("a", 1),
                    compact("a"),
                ]),
                Step::Flush,
            ],
        )
        .options(|options| options.auto_compact(false).archive(true)),
        script(
            "archive_beside_changes",
            vec![
                wait([append("a", ["one", "two", "three"]), truncate("a", 2)]),
                Step::Start(vec![compact("a")]),
                wait([append("a", ["four"]), truncate("a", 1)]),
                Step::Start(vec![compact("a")]),
                wait([set_history("a", ["five", "six"]), truncate("a", 1)]),
                Step::Start(vec![compact("a")]),
                wait([delete("a")]),
            ],
        )
        .options(|options| options.auto_compact(false).archive(true))
        .schedules(3),
    ]
}

fn flushes() -> Vec<Script> {
    vec![
        script(
            "flush_between",
            vec![
                wait([add("a", "one")]),
                Step::Flush,
                wait([append("a", ["two", "three"])]),
                Step::Flush,
                Step::Flush,
                wait([truncate("a", 1)]),
                Step::Flush,
                wait([set_history("a", ["four"]), add("a", "five")]),
                Step::Flush,
                wait([add("a", "six")]),
            ],
        ),
        script(
            "flush_under_load",
            vec![
                wait([append("a", ["one", "two", "three"]), add("b", "four")]),
                Step::StartFlush,
                Step::Start(vec![add("a", "five"), summary("b", "sum")]),
                wait([add("b", "six"), truncate("a", 2)]),
                Step::StartFlush,
                wait([add("a", "seven"), set_history("b", ["eight"])]),
                Step::StartFlush,
                wait([delete("a"), add("b", "nine")]),
                Step::Flush,
            ],
        )
        .schedules(8),
        script(
            "two_flushes",
            vec![
                wait([add("a", "one"), long("b", "two", 2000)]),
                Step::StartFlush,
                wait([add("a", "three"), summary("a", "sum")]),
                Step::StartFlush,
                wait([long("b", "four", 2000), add("a", "five")]),
                Step::Flush,
                wait([add("b", "six")]),
            ],
        )
        .schedules(4),
        script(
            "flush_of_many",
            vec![
                wait(KEYS.map(|key| add(key, "one"))),
                Step::StartFlush,
                wait(KEYS.map(|key| add(key, "two"))),
                Step::Flush,
                wait([
                    delete(KEYS[0]),
                    truncate(KEYS[1], 1),
                    set_history(KEYS[2], ["x"]),
                ]),
                Step::Flush,
            ],
        )
        .schedules(1),
        script(
            "idle_flush",
            vec![
                wait([add("a", "one"), summary("b", "sum")]),
                Step::Pause(Duration::from_millis(700)),
                wait([truncate("a", 0), add("b", "two")]),
                Step::Pause(Duration::from_millis(700)),
            ],
        ),
    ]
}

/// What is told and not synced when a flush comes to its session, whose sidecar
/// the journal then holds no image of.
fn beside_flushes() -> Vec<Script> {
    let begun = |first: &str, second: &str| {
        Step::Start(vec![
            buffered(add("a", first)),
            buffered(summary("a", first)),
            buffered(add("b", second)),
            buffered(summary("b", second)),
        ])
    };
    vec![
        durable_beside_flushes(),
        script(
            "buffered_beside_flushes",
            vec![
                wait([add("a", "one"), add("b", "two"), summary("a", "sum")]),
                Step::Flush,
                begun("three", "four"),
                Step::StartFlush,
                Step::Flush,
                begun("five", "six"),
                Step::StartFlush,
                Step::Flush,
                begun("seven", "eight"),
                Step::StartFlush,
                Step::Flush,
            ],
        )
        .where_sidecars_are_replaced(),
        script(
            "foreign_sidecars_beside_a_flush",
            vec![begun("three", "four"), Step::StartFlush, Step::Flush],
        )
        .foreign(
            "a",
            FOREIGN_LINE,
            "{\"key\":\"a\",\"skip\":0,\"count\":1}",
            "one",
        )
        .foreign(
            "b",
            FOREIGN_LINE,
            "{\"key\":\"b\",\"skip\":0,\"count\":1}",
            "one",
        )
        .where_sidecars_are_replaced(),
    ]
}

/// Changes that are in flight when a flush begins, behind some that it covers.
pub(crate) fn durable_beside_flushes() -> Script {
    let round = |first: &str, second: &str| {
        [
            wait([add("a", first), add("b", first)]),
            Step::Start(vec![add("a", second), add("b", second)]),
            Step::StartFlush,
            Step::Flush,
        ]
    };
    let rounds = [("one", "two"), ("three", "four"), ("five", "six")];
    let rounds = rounds.map(|(first, second)| round(first, second));
    script("durable_beside_flushes", rounds.concat())
}

const FOREIGN_LINE: &str = "{\"role\":\"user\",\"content\":\"one\"}\n";

fn openings() -> Vec<Script> {
    vec![
        script(
            "first_open",
            vec![
                wait([add("a", "one")]),
                Step::Reopen,
                wait([add("a", "two")]),
            ],
        )
        .opened_from_nothing(),
        script(
            "close_and_reopen",
            vec![
                wait([append("a", ["one", "two"]), summary("b", "sum")]),
                Step::Reopen,
                wait([add("a", "three"), truncate("a", 1)]),
                Step::Reopen,
                wait([add("a", "four"), delete("b")]),
                Step::Reopen,
            ],
        ),
        script(
            "death_and_restart",
            vec![
                wait([append("a", ["one", "two"]), buffered(add("b", "three"))]),
                Step::Restart,
                wait([set_history("a", ["four"]), add("b", "five")]),
                Step::Restart,
                wait([delete("a"), buffered(add("b", "six"))]),
                Step::Restart,
                wait([add("a", "seven")]),
            ],
        )
        .schedules(1),
        script(
            "foreign_files",
            vec![
                wait([add("torn", "two")]),
                wait([add("plain", "two"), truncate("plain", 1)]),
                Step::Flush,
                wait([add("bare", "two"), set_history("torn", ["three"])]),
            ],
        )
        .foreign(
            "torn",
            "{\"role\":\"user\",\"content\":\"one\"}",
            "{\"key\":\"torn\",\"skip\":0,\"count\":1}",
            "one",
        )
        .foreign(
            "plain",
            "{\"role\":\"user\",\"content\":\"zero\"}\n{\"role\":\"user\",\"content\":\"one\"}\n",
            "{\"key\":\"plain\",\"skip\":1,\"count\":2}",
            "one",
        )
        .foreign(
            "bare",
            "{\"role\":\"user\",\"content\":\"one\"}\n",
            "",
            "one",
        ),
    ]
}

fn full_disks() -> Vec<Script> {
    vec![
        script(
            "full_disk",
            vec![
                wait([append("a", ["one", "two"]), summary("b", "sum")]),
                Step::Fill(600),
                wait([long("a", "three", 6000), add("b", "four")]),
                wait([add("a", "five"), add("c", "six")]),
                wait([long("b", "seven", 9000)]),
                Step::Free,
                wait([add("a", "eight"), add("b", "nine"), add("c", "ten")]),
                Step::Flush,
                Step::Fill(0),
                wait([add("a", "eleven"), delete("c")]),
                Step::Free,
                wait([add("c", "twelve")]),
                Step::Flush,
            ],
        ),
        script(
            "full_disk_at_a_rewrite",
            vec![
                wait([append("a", ["one", "two", "three"]), truncate("a", 2)]),
                Step::Flush,
                Step::Fill(100),
                wait([compact("a"), add("b", "four")]),
                wait([set_history("a", ["five"]), promote("new", "a")]),
                Step::Free,
                wait([set_history("a", ["six"]), compact("a"), add("b", "seven")]),
                Step::Reopen,
                wait([add("a", "eight")]),
            ],
        )
        .options(|options| options.auto_compact(false)),
    ]
}

fn combinations() -> Vec<Script> {
    vec![
        script(
            "two_sessions_one_alias",
            vec![
                wait([add("a", "one"), aliases("a", ["x", "y"])]),
                wait([aliases("b", ["x"]), add("b", "two")]),
                Step::Flush,
                wait([aliases("a", ["y"]), promote("c", "a")]),
                wait([delete("a"), aliases("b", ["x", "y"])]),
                Step::Flush,
                wait([add("a", "three"), aliases("a", ["x"]), aliases("b", [])]),
            ],
        ),
        script(
            "close_under_load",
            vec![
                wait([append("a", ["one", "two", "three"])]),
                Step::Start(vec![add("a", "four"), truncate("a", 2), summary("b", "s")]),
                Step::Reopen,
                Step::Start(vec![compact("a"), add("b", "five"), delete("c")]),
                Step::Reopen,
                Step::Start(vec![set_history("b", ["six"]), buffered(add("a", "seven"))]),
                Step::Reopen,
            ],
        )
        .schedules(3),
        script(
            "rotation_under_a_flush",
            vec![
                wait([long("a", "one", 3000), long("b", "two", 3000)]),
                Step::StartFlush,
                Step::Start(vec![long("a", "three", 3000), long("b", "four", 3000)]),
                wait([truncate("a", 1), summary("b", "s")]),
                Step::StartFlush,
                wait([long("b", "five", 6000), set_history("a", ["six"])]),
                Step::Restart,
                wait([long("a", "seven", 3000)]),
                Step::Flush,
            ],
        )
        .schedules(3),
    ]
}

const KEYS: [&str; 11] = [
    "telegram:1",
    "telegram:2",
    "telegram_2",
    "slack/C1",
    "slack/C2",
    "cli",
    "discord:9",
    "x",
    "y",
    "z",
    "w",
];

/// Keys of one shard, so that one file handle must do for all of them.
const NEIGHBOURS: [&str; 3] = ["neighbour-0", "neighbour-28", "neighbour-51"];

fn script(name: &'static str, steps: Vec<Step>) -> Script {
    Script {
        fills: steps.iter().any(|step| matches!(step, Step::Fill(_))),
        name,
        steps,
        options: StoreOptions::new().journal_segments(8 << 10, 8 << 10),
        foreign: Vec::new(),
        start: Vec::new(),
        from_nothing: false,
        schedules: 2,
        replaces: false,
    }
}

impl Script {
    /// Whether the process dies and comes back after it was told of something
    /// that a failed sync may take back: what it then builds on is not known.
    pub(crate) fn goes_on_after_buffered(&self) -> bool {
        let buffered = |step: &Step| match step {
            Step::Do(ops) | Step::Start(ops) => {
                ops.iter().any(|op| op.level == Durability::Buffered)
            }
            _ => false,
        };
        let first = self.steps.iter().position(buffered);
        let mut behind = self.steps.iter().skip(first.unwrap_or(self.steps.len()));
        behind.any(|step| matches!(step, Step::Restart))
    }

    fn options(mut self, change: impl FnOnce(StoreOptions) -> StoreOptions) -> Self {
        self.options = change(self.options);
        self
    }

    fn schedules(self, schedules: u64) -> Self {
        Self { schedules, ..self }
    }

    fn where_sidecars_are_replaced(self) -> Self {
        Self {
            schedules: 8,
            replaces: true,
            ..self
        }
    }

    fn opened_from_nothing(self) -> Self {
        Self {
            from_nothing: true,
            ..self
        }
    }

    /// A session that was there before.
    fn foreign(mut self, key: &'static str, log: &'static str, sidecar: &str, text: &str) -> Self {
        self.foreign.push((format!("{key}.jsonl"), log.to_owned()));
        if !sidecar.is_empty() {
            let name = format!("{key}.meta.json");
            self.foreign.push((name, sidecar.to_owned()));
        }
        // Without a sidecar it is listed under its name, which is its key.
        let state = State {
            listed: true,
            texts: vec![text.to_owned()],
            ..State::default()
        };
        self.start.push((key, state));
        self
    }
}

fn wait<const N: usize>(ops: [Op; N]) -> Step {
    Step::Do(ops.into())
}

fn op(key: &'static str, act: Act) -> Op {
    Op {
        key,
        act,
        level: Durability::Durable,
    }
}

fn buffered(op: Op) -> Op {
    Op {
        level: Durability::Buffered,
        ..op
    }
}

fn add(key: &'static str, text: &str) -> Op {
    append(key, [text])
}

fn append<const N: usize>(key: &'static str, texts: [&str; N]) -> Op {
    op(key, Act::Append(texts.map(str::to_owned).into()))
}

/// A text that fills sectors and pages.
fn long(key: &'static str, text: &str, bytes: usize) -> Op {
    op(
        key,
        Act::Append(vec![format!("{text} {}", "·".repeat(bytes / 2))]),
    )
}

fn truncate(key: &'static str, keep: usize) -> Op {
    op(key, Act::Truncate(keep))
}

fn update<const N: usize>(
    key: &'static str,
    texts: [&str; N],
    summary: &str,
    keep: Option<usize>,
    tokens: Option<i64>,
) -> Op {
    let update = Update {
        texts: texts.map(str::to_owned).into(),
        summary: Some(summary.to_owned()),
        keep,
        tokens,
    };
    op(key, Act::Update(update))
}

fn once(key: &'static str, id: &str, text: &str) -> Op {
    op(key, Act::Once(id.to_owned(), text.to_owned()))
}

fn compact(key: &'static str) -> Op {
    op(key, Act::Compact)
}

fn set_history<const N: usize>(key: &'static str, texts: [&str; N]) -> Op {
    op(key, Act::SetHistory(texts.map(str::to_owned).into()))
}

fn summary(key: &'static str, text: &str) -> Op {
    op(key, Act::SetSummary(text.to_owned()))
}

fn title(key: &'static str, text: &str) -> Op {
    op(key, Act::SetTitle(text.to_owned()))
}

fn edit(key: &'static str, newer: usize, text: Option<&str>) -> Op {
    op(key, Act::Edit(newer, text.map(str::to_owned)))
}

fn long_summary(key: &'static str, bytes: usize) -> Op {
    summary(key, &"s".repeat(bytes))
}

fn aliases<const N: usize>(key: &'static str, names: [&str; N]) -> Op {
    op(key, Act::SetAliases(names.map(str::to_owned).into()))
}

fn checkpoint(key: &'static str) -> Op {
    op(key, Act::Checkpoint)
}

fn usage(key: &'static str, tokens: i64) -> Op {
    op(key, Act::Usage(tokens))
}

fn revert(key: &'static str, id: usize) -> Op {
    op(key, Act::Revert(id))
}

fn clear(key: &'static str) -> Op {
    op(key, Act::Clear)
}

fn restore(key: &'static str, number: u64) -> Op {
    op(key, Act::Restore(number))
}

fn fork(key: &'static str, from: &'static str) -> Op {
    op(key, Act::Fork(from))
}

/// The session of the old key goes on under `key`, before what that has.
fn goes_on(key: &'static str, old: &'static str) -> Op {
    op(key, Act::Move(old))
}

fn delete(key: &'static str) -> Op {
    op(key, Act::Delete)
}

fn promote(key: &'static str, alias: &'static str) -> Op {
    op(key, Act::Promote(alias))
}
