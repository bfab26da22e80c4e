//! The statements. They are plain SQL, sent without names through a pooler. In transaction mode a
//! pooler gives each transaction another connection, which would not find a prepared statement
//! again.

/// The statements for one schema.
#[derive(Debug)]
pub(crate) struct Sql {
    pub(crate) schema: String,
    pub(crate) take_lane: String,
    pub(crate) take_lane_and_gate: String,
    pub(crate) take_lane_at_once: String,
    pub(crate) notify: String,
    pub(crate) claims: String,
    pub(crate) lock_sessions: String,
    pub(crate) taken_ids: String,
    pub(crate) insert_sessions: String,
    pub(crate) bump_sessions: String,
    pub(crate) rewrite_sessions: String,
    pub(crate) put_summaries: String,
    pub(crate) summary: String,
    pub(crate) put_tags: String,
    pub(crate) tags: String,
    pub(crate) insert_lines: String,
    pub(crate) append_known: String,
    pub(crate) append_known_and_forget: String,
    pub(crate) insert_ids: String,
    pub(crate) forget_ids: String,
    pub(crate) message_ids: String,
    pub(crate) number_backup: String,
    pub(crate) take_backup: String,
    pub(crate) take_backup_lines: String,
    pub(crate) backup_lines: String,
    pub(crate) count_backup: String,
    pub(crate) insert_backup: String,
    pub(crate) insert_backup_lines: String,
    pub(crate) restore_lines: String,
    pub(crate) backup: String,
    pub(crate) backups: String,
    pub(crate) own_backups: String,
    pub(crate) fork_lines: String,
    pub(crate) set_key: String,
    pub(crate) make_room: String,
    pub(crate) turn_back: String,
    pub(crate) move_lines: String,
    pub(crate) renumber_ids: String,
    pub(crate) move_ids: String,
    pub(crate) move_backup_lines: String,
    pub(crate) move_backups: String,
    pub(crate) count_moved_backups: String,
    pub(crate) settle: String,
    pub(crate) find: String,
    pub(crate) session: String,
    pub(crate) history: String,
    pub(crate) tail: String,
    pub(crate) newest: String,
    pub(crate) controls: String,
}

/// The columns of a session, in the order of [`Session::of`](crate::row::Session::of).
pub(crate) const COLUMNS: &str = "s.session_id, s.key, s.version, s.history, s.start_at, \
     s.end_at, s.lines, s.hidden, s.messages, {SUMMARY}, s.scope, s.aliases, s.created_at, \
     s.updated_at, s.updated_ns, s.taken, {TAGS}";

const SUMMARY: &str = "COALESCE((SELECT t.summary FROM {schema}.session_summaries t
    WHERE t.session_id = s.session_id), ''::bytea)";

const TAGS: &str = "(SELECT g.tags FROM {schema}.session_tags g
    WHERE g.session_id = s.session_id)";

/// Used instead of the summary and the tags where rows are locked. A transaction that waited for a
/// lock finds the present row, but the earlier summary and tags.
const NO_SUMMARY: &str = "''::bytea";
const NO_TAGS: &str = "NULL::text";

/// True if a commit that this process of the server makes now waits for a replica.
pub(crate) const WAITS: &str = "current_setting('synchronous_standby_names') <> ''
     AND current_setting('synchronous_commit') NOT IN ('off', 'local')";

/// Number of these columns. Other columns of a statement come after them.
pub(crate) const WIDTH: usize = 17;

/// The key of the session that a key means, or nothing. `$1` is the key, `$2` the same without
/// white space around it. `$3` is true if the key comes before an alias, `$4` if it is taken
/// literally. Parts that are not needed are not looked for: each part waits for those before it.
const MEANT: &str = "COALESCE(
    CASE WHEN $1 <> $2 OR $4 THEN (SELECT key FROM {schema}.sessions WHERE key = $1) END,
    CASE WHEN $3 AND NOT $4 THEN (SELECT key FROM {schema}.sessions WHERE key = $2) END,
    CASE WHEN NOT $4 THEN (SELECT session_key FROM {schema}.session_aliases
        WHERE alias = $2 AND session_key <> $2 ORDER BY file_name, session_key LIMIT 1) END,
    CASE WHEN NOT $4 THEN $2 END)";

/// The visible lines `l` of a session `s`. The condition is not `session_id = s.session_id`. For an
/// unknown session the server expects as many lines as others have, and would rather read and sort
/// all of them than go backwards through the index. A session with ten thousand lines, among many
/// with ten, was read whole for its last fifty.
const VISIBLE: &str = "(l.session_id, l.line_at) >= (s.session_id, s.start_at)
     AND (l.session_id, l.line_at) < (s.session_id, s.end_at) AND l.kind = 0";

/// All or nothing. The sessions must still be in the state that was left, and have the same keys,
/// because a change of a key leaves the version alone. The lane must have its token, no key may
/// mean another session, and there must be no followers. Otherwise this fails, and with it the
/// commit, which is under way already. The key is no condition of the update: the server would look
/// for the rows by the key, which takes longer than by their numbers.
const APPEND_KNOWN: &str = "WITH held AS (
     UPDATE {schema}.sessions s SET version = i.version, end_at = i.end_at,
         lines = i.lines, messages = i.messages, updated_at = i.updated_at,
         updated_ns = i.updated_ns, taken = i.taken
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
         $5::bigint[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[],
         $10::bigint[], $11::bigint[], $12::bigint[], $25::text[])
         AS i(session_id, version, end_at, lines, messages, updated_at,
             updated_ns, taken, found_version, found_ns, found_lines, found_end, key)
     WHERE s.session_id = i.session_id AND s.version = i.found_version
         AND s.updated_ns = i.found_ns AND s.lines = i.found_lines
         AND s.end_at = i.found_end
     RETURNING s.key = i.key AS is_its_key),
 added AS (
     INSERT INTO {schema}.lines (session_id, line_at, kind, line, said)
     SELECT * FROM unnest($13::bigint[], $14::bigint[], $15::smallint[],
         $16::bytea[], $17::text[])),
 noted AS (
     INSERT INTO {schema}.message_ids (session_id, message_id, turn)
     SELECT * FROM unnest($18::bigint[], $19::bytea[], $20::bigint[])){AND_FORGET}
 SELECT 1 / CAST((SELECT count(*) FROM held WHERE is_its_key) = $21
     AND EXISTS (SELECT 1 FROM {schema}.lanes WHERE lane_id = $22 AND token = $23)
     AND NOT EXISTS (SELECT 1 FROM unnest($24::text[]) AS t(k)
         JOIN {schema}.session_aliases a ON a.alias = k AND a.session_key <> k)
     AND NOT EXISTS (SELECT 1 FROM {schema}.followers WHERE until > now())
     AS int)";

/// The backups of session `$1`, each with the number that it gets in session `$2`. If that session
/// never had any backup, it is the old number, so that a number that was written down finds the
/// same backup. Otherwise it is one of the next numbers.
const MOVED_BACKUPS: &str = "SELECT b.number, CASE WHEN s.backups = 0 THEN b.number
         ELSE s.backups + row_number() OVER (ORDER BY b.number) END AS is_now
     FROM {schema}.backups b JOIN {schema}.sessions s ON s.session_id = $2
     WHERE b.session_id = $1";

/// The addition to the statement if ids are to be forgotten.
const AND_FORGET: &str = ",
 forgotten AS ({FORGET})";

/// Each session has one id of each turn, so that a range of turns is as many ids at most. The start
/// of the range is looked up once. In the condition itself it would be looked up for each row.
const FORGET: &str = "DELETE FROM {schema}.message_ids m
     USING unnest({COLUMNS}) AS t(session_id, last_turn, most),
         LATERAL (SELECT o.turn FROM {schema}.message_ids o
             WHERE o.session_id = t.session_id AND o.turn <> 0
             ORDER BY o.turn LIMIT 1) AS oldest
     WHERE m.session_id = t.session_id AND m.turn <> 0 AND m.turn >= oldest.turn
         AND m.turn <= least(t.last_turn, oldest.turn + t.most - 1)";

/// Returns [`FORGET`] with these parameters.
fn forget(columns: &str) -> String {
    FORGET.replace("{COLUMNS}", columns)
}

/// Returns the name of a schema in quotes, because it may be a word of SQL.
pub(crate) fn quoted(schema: &str) -> String {
    format!("\"{schema}\"")
}

impl Sql {
    #[expect(clippy::too_many_lines, reason = "it is the list of the statements")]
    pub(crate) fn of(schema: &str) -> Self {
        let fill = |sql: &str| fill(schema, sql);
        Self {
            schema: schema.to_owned(),
            take_lane: fill(
                "UPDATE {schema}.lanes SET token = $2, seen_at = now() WHERE lane_id = $1
                 RETURNING settled",
            ),
            // The gate is locked in a statement before the question for followers, so that the
            // question sees all of them. In one statement with the gate, the question could find
            // nobody, and followers would not be told.
            take_lane_and_gate: fill(
                "UPDATE {schema}.lanes SET token = $2, seen_at = now() WHERE lane_id = $1
                 RETURNING settled, pg_advisory_xact_lock_shared($3), {WAITS}",
            ),
            // For a transaction that is sent whole, before any answer. It may arrive after its lane
            // gave it up and asked for its outcome. Then it finds that it was settled, and does
            // nothing. It also does nothing if its beginning failed: otherwise the rest would be
            // carried out piece by piece, and after a crash only the first pieces.
            take_lane_at_once: fill(
                "UPDATE {schema}.lanes SET token = CAST($2 AS bigint), seen_at = now()
                 WHERE lane_id = $1 AND settled = $4
                     AND current_setting('sessionlog.token', true) = CAST(CAST($2 AS bigint) AS text)
                 RETURNING settled, pg_advisory_xact_lock_shared($3), {WAITS}",
            ),
            notify: fill("SELECT pg_notify($1, p) FROM unnest($2::text[]) AS t(p)"),
            // Each row tells if there are followers, and there is one row at least.
            claims: fill(
                "SELECT EXISTS (SELECT 1 FROM {schema}.followers WHERE until > now()), k,
                     c.session_id, c.was_key
                 FROM (VALUES (1)) AS one(n) LEFT JOIN unnest($1::text[]) AS t(k) ON true
                 LEFT JOIN LATERAL (SELECT a.session_id, a.was_key
                     FROM {schema}.session_aliases a
                     WHERE a.alias = k AND a.session_key <> k
                     ORDER BY a.file_name, a.session_key LIMIT 1) AS c ON true",
            ),
            // The rows are locked in the order of their numbers, which is the same in every
            // collation. Of two transactions that lock the same sessions, only one waits. The ids
            // are an array, which is found once. In a join the server would look for a row anew in
            // the join after it waited for its lock, not find it there, and leave it out. Then an
            // existing session would look as if it did not exist.
            lock_sessions: fill(&format!(
                "SELECT {} FROM {{schema}}.sessions s
                 WHERE s.session_id = ANY(ARRAY(
                     SELECT session_id FROM {{schema}}.sessions WHERE key = ANY($1)
                     UNION ALL
                     SELECT (SELECT a.session_id FROM {{schema}}.session_aliases a
                         WHERE a.alias = k AND a.session_key <> k
                         ORDER BY a.file_name, a.session_key LIMIT 1)
                     FROM unnest($2::text[]) AS t(k)))
                 ORDER BY s.session_id FOR UPDATE",
                COLUMNS
                    .replace("{SUMMARY}", NO_SUMMARY)
                    .replace("{TAGS}", NO_TAGS)
            )),
            taken_ids: fill(
                "SELECT m.session_id, m.message_id
                 FROM unnest($1::bigint[], $2::bytea[]) AS t(session_id, id)
                 JOIN {schema}.message_ids m
                     ON m.session_id = t.session_id AND m.message_id = t.id",
            ),
            // If another writer made one of the sessions meanwhile, this fails, and all of it is
            // done again. Otherwise lines of a session that does not exist would be lost.
            insert_sessions: fill(
                "INSERT INTO {schema}.sessions (session_id, key, file_name, version, history,
                     start_at, end_at, lines, hidden, messages, updated_at, updated_ns, taken,
                     scope, agent, channel, aliases, created_at, whom)
                 SELECT session_id, key, file_name, version, history, start_at, end_at, lines,
                     hidden, messages, updated_at, updated_ns, taken, scope, agent, channel,
                     aliases, created_at, string_to_array(whom, chr(31))
                 FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::bigint[],
                     $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
                     $10::bigint[], $11::text[], $12::bigint[], $13::bigint[], $14::text[],
                     $15::text[], $16::text[], $17::text[], $18::text[], $19::text[])
                     AS i(session_id, key, file_name, version, history, start_at, end_at, lines,
                         hidden, messages, updated_at, updated_ns, taken, scope, agent, channel,
                         aliases, created_at, whom)",
            ),
            bump_sessions: fill(
                "UPDATE {schema}.sessions s SET version = i.version, history = i.history,
                     start_at = i.start_at, end_at = i.end_at, lines = i.lines,
                     hidden = i.hidden, messages = i.messages, updated_at = i.updated_at,
                     updated_ns = i.updated_ns, taken = i.taken
                 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
                     $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[],
                     $10::bigint[], $11::bigint[])
                     AS i(session_id, version, history, start_at, end_at, lines, hidden,
                         messages, updated_at, updated_ns, taken)
                 WHERE s.session_id = i.session_id",
            ),
            rewrite_sessions: fill(
                "UPDATE {schema}.sessions s SET scope = i.scope, agent = i.agent,
                     channel = i.channel, aliases = i.aliases, created_at = i.created_at,
                     whom = string_to_array(i.whom, chr(31))
                 FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[],
                     $6::text[], $7::text[])
                     AS i(session_id, scope, agent, channel, aliases, created_at, whom)
                 WHERE s.session_id = i.session_id",
            ),
            put_summaries: fill(
                "INSERT INTO {schema}.session_summaries (session_id, summary)
                 SELECT * FROM unnest($1::bigint[], $2::bytea[])
                 ON CONFLICT (session_id) DO UPDATE SET summary = excluded.summary",
            ),
            summary: fill(
                "SELECT summary FROM {schema}.session_summaries WHERE session_id = $1",
            ),
            put_tags: fill(
                "INSERT INTO {schema}.session_tags (session_id, tags, labels, pinned)
                 SELECT session_id, tags, string_to_array(labels, chr(31)), pinned
                 FROM unnest($1::bigint[], $2::text[], $3::text[], $4::boolean[])
                     AS i(session_id, tags, labels, pinned)
                 ON CONFLICT (session_id) DO UPDATE SET tags = excluded.tags,
                     labels = excluded.labels, pinned = excluded.pinned",
            ),
            tags: fill("SELECT tags FROM {schema}.session_tags WHERE session_id = $1"),
            insert_lines: fill(
                "INSERT INTO {schema}.lines (session_id, line_at, kind, line, said)
                 SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::smallint[],
                     $4::bytea[], $5::text[])",
            ),
            append_known: fill(&APPEND_KNOWN.replace("{AND_FORGET}", "")),
            append_known_and_forget: fill(
                &APPEND_KNOWN.replace("{AND_FORGET}", AND_FORGET).replace(
                    "{FORGET}",
                    &forget("$26::bigint[], $27::bigint[], $28::bigint[]"),
                ),
            ),
            insert_ids: fill(
                "INSERT INTO {schema}.message_ids (session_id, message_id, turn)
                 SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[])",
            ),
            forget_ids: fill(&forget("$1::bigint[], $2::bigint[], $3::bigint[]")),
            message_ids: fill(
                "SELECT message_id FROM {schema}.message_ids WHERE session_id = $1
                 ORDER BY turn, message_id",
            ),
            count_backup: fill(
                "UPDATE {schema}.sessions SET backups = backups + 1 WHERE session_id = $1",
            ),
            // The number is as high as it was elsewhere, if no number from it on was given here.
            number_backup: fill(
                "UPDATE {schema}.sessions SET backups = greatest(backups + 1, $2)
                 WHERE session_id = $1",
            ),
            take_backup: fill(
                "INSERT INTO {schema}.backups (session_id, number, reason, made_ms, size,
                     start_at, end_at, lines, hidden, messages)
                 SELECT s.session_id, s.backups, $2, $3, $5, $4, $5, $6, $7, $8
                 FROM {schema}.sessions s WHERE s.session_id = $1",
            ),
            take_backup_lines: fill(
                "INSERT INTO {schema}.backup_lines (session_id, number, line_at, kind, line, said)
                 SELECT s.session_id, s.backups, i.line_at, i.kind, i.line, i.said
                 FROM {schema}.sessions s,
                     unnest($2::bigint[], $3::smallint[], $4::bytea[], $5::text[])
                         AS i(line_at, kind, line, said)
                 WHERE s.session_id = $1",
            ),
            backup_lines: fill(
                "SELECT line_at, line FROM {schema}.backup_lines
                 WHERE session_id = $1 AND number = $2 ORDER BY line_at",
            ),
            insert_backup: fill(
                "INSERT INTO {schema}.backups (session_id, number, reason, made_ms, size,
                     start_at, end_at, lines, hidden, messages)
                 SELECT s.session_id, s.backups, $2, $3,
                     (SELECT sum(octet_length(l.line) + 1) FROM {schema}.lines l
                         WHERE l.session_id = $1)::bigint,
                     s.start_at, s.end_at, s.lines, s.hidden, s.messages
                 FROM {schema}.sessions s WHERE s.session_id = $1",
            ),
            insert_backup_lines: fill(
                "INSERT INTO {schema}.backup_lines (session_id, number, line_at, kind, line, said)
                 SELECT l.session_id, s.backups, l.line_at, l.kind, l.line, l.said
                 FROM {schema}.sessions s JOIN {schema}.lines l ON l.session_id = s.session_id
                 WHERE s.session_id = $1",
            ),
            restore_lines: fill(
                "INSERT INTO {schema}.lines (session_id, line_at, kind, line, said)
                 SELECT session_id, line_at, kind, line, said FROM {schema}.backup_lines
                 WHERE session_id = $1 AND number = $2",
            ),
            backup: fill(
                "SELECT start_at, end_at, lines, hidden, messages FROM {schema}.backups
                 WHERE session_id = $1 AND number = $2",
            ),
            backups: fill(
                "SELECT b.number, b.reason, b.made_ms, b.size FROM {schema}.sessions s
                 JOIN {schema}.backups b ON b.session_id = s.session_id
                 WHERE s.key = {MEANT} ORDER BY b.number",
            ),
            own_backups: fill(
                "SELECT number, reason, made_ms, size FROM {schema}.backups
                 WHERE session_id = $1 ORDER BY number",
            ),
            fork_lines: fill(
                "INSERT INTO {schema}.lines (session_id, line_at, kind, line, said)
                 SELECT $2, line_at, kind, line, said FROM {schema}.lines
                 WHERE session_id = $1 AND line_at < $3",
            ),
            set_key: fill(
                "UPDATE {schema}.sessions SET key = $2, file_name = $3 WHERE session_id = $1",
            ),
            // The lines go by way of places before all others: the server checks for each row that
            // no other row has its place.
            make_room: fill(
                "UPDATE {schema}.lines SET line_at =
                     -(line_at + CASE WHEN line_at < $2 THEN $3 ELSE $4 END)
                 WHERE session_id = $1",
            ),
            turn_back: fill(
                "UPDATE {schema}.lines SET line_at = -line_at
                 WHERE session_id = $1 AND line_at < 0",
            ),
            move_lines: fill(
                "INSERT INTO {schema}.lines (session_id, line_at, kind, line, said)
                 SELECT $2, line_at + CASE WHEN line_at < $3 THEN 0 ELSE $4 END, kind, line, said
                 FROM {schema}.lines WHERE session_id = $1 AND ($5 OR kind <> 2)",
            ),
            // The ids get turns after this number of turns.
            renumber_ids: fill(
                "UPDATE {schema}.message_ids m SET turn = $2 + o.nth
                 FROM (SELECT message_id, row_number() OVER (ORDER BY turn, message_id) AS nth
                     FROM {schema}.message_ids WHERE session_id = $1) AS o
                 WHERE m.session_id = $1 AND m.message_id = o.message_id",
            ),
            // If both have an id, the later turn counts.
            move_ids: fill(
                "INSERT INTO {schema}.message_ids (session_id, message_id, turn)
                 SELECT $2, message_id, turn FROM {schema}.message_ids WHERE session_id = $1
                 ON CONFLICT DO NOTHING",
            ),
            move_backup_lines: fill(&format!(
                "INSERT INTO {{schema}}.backup_lines (session_id, number, line_at, kind, line, said)
                 SELECT $2, n.is_now, l.line_at, l.kind, l.line, l.said
                 FROM ({MOVED_BACKUPS}) AS n
                 JOIN {{schema}}.backup_lines l ON l.session_id = $1 AND l.number = n.number"
            )),
            move_backups: fill(&format!(
                "INSERT INTO {{schema}}.backups (session_id, number, reason, made_ms, size,
                     start_at, end_at, lines, hidden, messages)
                 SELECT $2, n.is_now, b.reason, b.made_ms, b.size, b.start_at, b.end_at, b.lines,
                     b.hidden, b.messages
                 FROM ({MOVED_BACKUPS}) AS n
                 JOIN {{schema}}.backups b ON b.session_id = $1 AND b.number = n.number"
            )),
            // Runs after the others, which look at the earlier number of backups.
            count_moved_backups: fill(
                "UPDATE {schema}.sessions s SET backups = CASE WHEN s.backups = 0
                     THEN (SELECT o.backups FROM {schema}.sessions o WHERE o.session_id = $1)
                     ELSE s.backups + (SELECT count(*) FROM {schema}.backups b
                         WHERE b.session_id = $1) END
                 WHERE s.session_id = $2",
            ),
            settle: fill(
                "UPDATE {schema}.lanes SET settled = settled + 1, seen_at = now()
                 WHERE lane_id = $1 RETURNING token, settled",
            ),
            find: fill("SELECT s.key FROM {schema}.sessions s WHERE s.key = {MEANT}"),
            session: fill("SELECT {COLUMNS} FROM {schema}.sessions s WHERE s.key = {MEANT}"),
            history: fill(
                "SELECT l.line_at, l.line FROM {schema}.sessions s,
                 LATERAL (SELECT line_at, line FROM {schema}.lines l WHERE {VISIBLE}
                     ORDER BY l.session_id, l.line_at) l
                 WHERE s.key = {MEANT}",
            ),
            tail: fill(
                "SELECT l.line_at, l.line FROM {schema}.sessions s,
                 LATERAL (SELECT line_at, line FROM {schema}.lines l WHERE {VISIBLE}
                     ORDER BY l.session_id DESC, l.line_at DESC LIMIT $5) l
                 WHERE s.key = {MEANT}",
            ),
            newest: fill(
                "SELECT l.line_at, l.line FROM {schema}.lines l
                 WHERE (l.session_id, l.line_at) >= ($1, $2)
                     AND (l.session_id, l.line_at) < ($1, $3) AND l.kind = 0
                 ORDER BY l.session_id DESC, l.line_at DESC LIMIT $4",
            ),
            controls: fill(
                "SELECT line_at, line FROM {schema}.lines
                 WHERE session_id = $1 AND kind IN (1, 2, 3) ORDER BY line_at",
            ),
        }
    }

    /// Returns the statements that readers often use.
    pub(crate) fn reads(&self) -> Vec<String> {
        let reads = [
            &self.find,
            &self.session,
            &self.history,
            &self.tail,
            &self.newest,
            &self.controls,
        ];
        reads.into_iter().cloned().collect()
    }

    /// Returns the statements of the transactions of a lane.
    pub(crate) fn writes(&self) -> Vec<String> {
        let writes = [
            &self.take_lane,
            &self.take_lane_and_gate,
            &self.take_lane_at_once,
            &self.claims,
            &self.lock_sessions,
            &self.taken_ids,
            &self.insert_sessions,
            &self.bump_sessions,
            &self.rewrite_sessions,
            &self.put_summaries,
            &self.insert_lines,
            &self.append_known,
            &self.append_known_and_forget,
            &self.insert_ids,
            &self.forget_ids,
            &self.notify,
        ];
        writes.into_iter().cloned().collect()
    }

    /// Fills in `{schema}` and the like in a statement of the caller.
    pub(crate) fn fill(&self, sql: &str) -> String {
        fill(&self.schema, sql)
    }
}

fn fill(schema: &str, sql: &str) -> String {
    let parts = [
        ("{MEANT}", MEANT),
        ("{VISIBLE}", VISIBLE),
        ("{COLUMNS}", COLUMNS),
        ("{SUMMARY}", SUMMARY),
        ("{TAGS}", TAGS),
        ("{WAITS}", WAITS),
        ("{schema}", &quoted(schema)),
    ];
    let filled = parts.iter();
    filled.fold(sql.to_owned(), |sql, (name, part)| sql.replace(name, part))
}
