//! The indexes that each statement is to use. A test makes the server explain the statements.

use sessionlog::backend::kit;
use sessionlog::{SessionOrder, SessionQuery};

use crate::leaving::WITH_WHOM;
use crate::listing;
use crate::search::{CANDIDATES, HAVING, HAVING_OUTSIDE, words_statement};
use crate::sql::Sql;

/// A statement, values for its parameters, and the indexes that it is to use.
type Statement = (String, String, Vec<&'static str>);

/// See [`statements`](crate::statements).
pub(crate) fn statements(schema: &str) -> Vec<Statement> {
    let sql = Sql::of(schema);
    let is_own = kit::is_own_first("old:7").to_string();
    let sought = "'old:7', 'old:7', false, false".replacen("false", &is_own, 1);
    let found = ["sessions_by_key", "aliases_by_name"];
    let with = |more: &[&'static str]| [&found[..], more].concat();
    let list = |order| {
        let query = SessionQuery::new()
            .prefix("telegram:1")
            .order(order)
            .limit(10);
        sql.fill(&listing::statement(&query))
    };
    let page = r"'telegram_1'::bytea, 'telegram_2'::bytea, 'telegram:1', NULL, NULL, NULL,
        ''::bytea, NULL, 9223372036854775807, 11, NULL";
    let known = format!(
        "{}, ARRAY['', ''], {}, ARRAY[7, 9], ARRAY[1, 1], ARRAY[0, 0]::smallint[],
         ARRAY['', '']::bytea[], ARRAY['', ''], ARRAY[7], ARRAY['']::bytea[], ARRAY[1],
         2, 1, 1, ARRAY['old:3'], ARRAY['telegram:7', 'telegram:9']",
        ["ARRAY[7, 9]"; 5].join(", "),
        ["ARRAY[7, 9]"; 6].join(", ")
    );
    let mut statements = vec![
        (typed(&sql.find, FOUR), sought.clone(), with(&[])),
        (typed(&sql.session, FOUR), sought.clone(), with(&[])),
        (
            typed(&sql.history, FOUR),
            sought.clone(),
            with(&["lines_pkey"]),
        ),
        (
            typed(&sql.tail, "text, text, boolean, boolean, bigint"),
            format!("{sought}, 50"),
            with(&["Index Scan Backward using lines_pkey"]),
        ),
        (
            typed(&sql.newest, "bigint, bigint, bigint, bigint"),
            "7, 0, 10000000, 128".into(),
            vec!["Index Scan Backward using lines_pkey"],
        ),
        (
            typed(&sql.controls, "bigint"),
            "7".into(),
            vec!["control_lines"],
        ),
        (
            typed(&sql.lock_sessions, "text[], text[]"),
            "ARRAY['telegram:1', 'telegram:9'], ARRAY['old:3']".into(),
            vec!["sessions_by_key", "aliases_by_name", "sessions_pkey"],
        ),
        (
            typed(&sql.append_known, KNOWN),
            known.clone(),
            vec!["sessions_pkey", "aliases_by_name"],
        ),
        (
            typed(
                &sql.append_known_and_forget,
                &format!("{KNOWN}, bigint[], bigint[], bigint[]"),
            ),
            format!("{known}, ARRAY[7], ARRAY[3], ARRAY[9]"),
            vec!["sessions_pkey", "aliases_by_name", "message_ids_by_turn"],
        ),
        (
            typed(&sql.claims, "text[]"),
            "ARRAY['old:3']".into(),
            vec!["aliases_by_name"],
        ),
        (
            typed(&sql.fork_lines, "bigint, bigint, bigint"),
            "8, 9, 300".into(),
            vec!["lines_pkey"],
        ),
        (
            typed(&list(SessionOrder::Name), LISTED),
            page.into(),
            vec!["sessions_by_name", "lines_pkey"],
        ),
        (
            typed(&list(SessionOrder::Updated), LISTED),
            page.replace("telegram_1", "")
                .replace("telegram_2", "u")
                .replace("telegram:1", ""),
            vec!["Seq Scan on sessions", "lines_pkey"],
        ),
    ];
    let (people, tags) = (of_people(&sql, page), of_tags(&sql, page));
    let rest = [
        people,
        tags,
        of_searches(&sql),
        of_backups(&sql, &sought),
        of_ids(&sql),
        of_moves(&sql),
    ];
    statements.extend(rest.into_iter().flatten());
    statements
}

fn of_ids(sql: &Sql) -> Vec<Statement> {
    vec![
        (
            typed(&sql.taken_ids, "bigint[], bytea[]"),
            "ARRAY[7::bigint], ARRAY['id7'::bytea]".into(),
            vec!["message_ids_pkey"],
        ),
        (
            typed(&sql.forget_ids, "bigint[], bigint[], bigint[]"),
            "ARRAY[7::bigint, 9::bigint], ARRAY[3::bigint, 3::bigint], ARRAY[9::bigint, 9::bigint]"
                .into(),
            vec!["message_ids_by_turn"],
        ),
    ]
}

fn of_people(sql: &Sql, page: &str) -> Vec<Statement> {
    let by_whom = vec!["sessions_by_whom", "sessions_without_whom"];
    let everywhere = page.replace("telegram_1", "").replace("telegram:1", "");
    let everywhere = everywhere.replace("'telegram_2'::bytea", "NULL");
    let of_seven = everywhere.replacen("11, NULL", "11, '7'", 1);
    let list = |order| {
        let query = SessionQuery::new().person("7").order(order).limit(10);
        typed(&sql.fill(&listing::statement(&query)), LISTED)
    };
    let erased = format!("SELECT {{COLUMNS}} FROM {{schema}}.sessions s WHERE {WITH_WHOM}");
    vec![
        (list(SessionOrder::Name), of_seven.clone(), by_whom.clone()),
        (list(SessionOrder::Updated), of_seven, by_whom.clone()),
        (
            typed(&sql.fill(&erased), "text, bigint, text"),
            "'', 1000, '7'".into(),
            by_whom,
        ),
    ]
}

fn of_tags(sql: &Sql, page: &str) -> Vec<Statement> {
    let everywhere = page.replace("telegram_1", "").replace("telegram:1", "");
    let everywhere = everywhere.replace("'telegram_2'::bytea", "NULL");
    let list = |query: SessionQuery| sql.fill(&listing::statement(&query.limit(10)));
    let labelled = list(SessionQuery::new().label("label7"));
    let pinned = list(SessionQuery::new().pinned());
    vec![
        (
            typed(&sql.tags, "bigint"),
            "7".into(),
            vec!["session_tags_pkey"],
        ),
        (
            typed(&labelled, &format!("{LISTED}, text[]")),
            format!("{everywhere}, ARRAY['label7']"),
            vec!["sessions_by_label", "sessions_pkey"],
        ),
        (
            typed(&pinned, LISTED),
            everywhere,
            vec!["pinned_sessions", "sessions_pkey"],
        ),
    ]
}

fn of_searches(sql: &Sql) -> Vec<Statement> {
    vec![
        (
            typed(&sql.fill(&words_statement(true)), "text, bigint"),
            "'word19999', 10".into(),
            vec!["words_of_lines"],
        ),
        (
            typed(
                &sql.fill(CANDIDATES),
                "bigint[], bigint[], text, bigint, bytea, boolean",
            ),
            "ARRAY[7, 9]::bigint[], ARRAY[0, 0]::bigint[], 'word', 512, 'word', false".into(),
            vec!["sessions_pkey", "lines_pkey"],
        ),
        (
            typed(&sql.fill(HAVING), "text, bytea"),
            "'nowhere', 'nowhere'".into(),
            vec!["Seq Scan on lines"],
        ),
        (
            typed(&sql.fill(&[HAVING, HAVING_OUTSIDE].concat()), "text, bytea"),
            "'nowhere', 'nowhere'".into(),
            vec![
                "Seq Scan on lines",
                "Seq Scan on session_tags",
                "Seq Scan on session_summaries",
            ],
        ),
    ]
}

fn of_backups(sql: &Sql, sought: &str) -> Vec<Statement> {
    vec![
        (
            typed(&sql.backups, FOUR),
            sought.into(),
            vec!["sessions_by_key", "aliases_by_name", "backups_pkey"],
        ),
        (
            typed(&sql.own_backups, "bigint"),
            "7".into(),
            vec!["backups_pkey"],
        ),
        (
            typed(&sql.backup, "bigint, bigint"),
            "7, 1".into(),
            vec!["backups_pkey"],
        ),
        (
            typed(&sql.insert_backup, "bigint, smallint, bigint"),
            "8, 0, 0".into(),
            vec!["sessions_pkey", "lines_pkey"],
        ),
        (
            typed(&sql.insert_backup_lines, "bigint"),
            "8".into(),
            vec!["sessions_pkey", "lines_pkey"],
        ),
        (
            typed(&sql.restore_lines, "bigint, bigint"),
            "8, 1".into(),
            vec!["backup_lines_pkey"],
        ),
    ]
}

fn of_moves(sql: &Sql) -> Vec<Statement> {
    let lines = || vec!["lines_pkey"];
    vec![
        (
            typed(&sql.move_lines, "bigint, bigint, bigint, bigint, boolean"),
            "8, 9, 0, 300, false".into(),
            lines(),
        ),
        (
            typed(&sql.make_room, "bigint, bigint, bigint, bigint"),
            "8, 0, 300, 300".into(),
            lines(),
        ),
        (typed(&sql.turn_back, "bigint"), "8".into(), lines()),
        (
            typed(&sql.move_ids, "bigint, bigint"),
            "8, 9".into(),
            vec!["message_ids_pkey"],
        ),
        (
            typed(&sql.move_backup_lines, "bigint, bigint"),
            "8, 9".into(),
            vec!["sessions_pkey", "backups_pkey", "backup_lines_pkey"],
        ),
    ]
}

const KNOWN: &str = "bigint[], bigint[], bigint[], bigint[], bigint[], text[], bigint[], \
     bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], smallint[], \
     bytea[], text[], bigint[], bytea[], bigint[], bigint, bigint, bigint, text[], text[]";
const FOUR: &str = "text, text, boolean, boolean";
const LISTED: &str = "bytea, bytea, text, text, text, bigint, bytea, text, bigint, bigint, text";

/// Returns the statement in the form in which it is prepared: `(types) AS statement`.
fn typed(statement: &str, types: &str) -> String {
    format!("({types}) AS {statement}")
}
