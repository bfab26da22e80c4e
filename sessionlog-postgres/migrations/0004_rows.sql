-- A session's row has what an append changes at its end, and in no index: PostgreSQL updates it in
-- place, and logs these columns only. Summaries, which may be long, have rows of their own.
CREATE TABLE {schema}.session_summaries (
    session_id bigint PRIMARY KEY,
    summary    bytea NOT NULL
);
INSERT INTO {schema}.session_summaries
    SELECT session_id, summary FROM {schema}.sessions WHERE summary <> '';
ALTER TABLE {schema}.sessions
    ADD COLUMN at_version bigint NOT NULL DEFAULT 0,
    ADD COLUMN at_end bigint NOT NULL DEFAULT 0,
    ADD COLUMN all_lines bigint NOT NULL DEFAULT 0,
    ADD COLUMN all_messages bigint NOT NULL DEFAULT 0,
    ADD COLUMN at_ns bigint NOT NULL DEFAULT 0,
    ADD COLUMN at_time text NOT NULL DEFAULT '';
UPDATE {schema}.sessions SET at_version = version, at_end = end_at, all_lines = lines,
    all_messages = messages, at_ns = updated_ns, at_time = updated_at;
ALTER TABLE {schema}.sessions
    DROP COLUMN version, DROP COLUMN end_at, DROP COLUMN lines, DROP COLUMN messages,
    DROP COLUMN updated_ns, DROP COLUMN updated_at, DROP COLUMN updated_minute,
    DROP COLUMN summary;
ALTER TABLE {schema}.sessions RENAME COLUMN at_version TO version;
ALTER TABLE {schema}.sessions RENAME COLUMN at_end TO end_at;
ALTER TABLE {schema}.sessions RENAME COLUMN all_lines TO lines;
ALTER TABLE {schema}.sessions RENAME COLUMN all_messages TO messages;
ALTER TABLE {schema}.sessions RENAME COLUMN at_ns TO updated_ns;
ALTER TABLE {schema}.sessions RENAME COLUMN at_time TO updated_at;

-- Room in each page for the next versions of its rows; and what is left of the former ones is
-- removed before it is much.
ALTER TABLE {schema}.sessions SET (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE {schema}.message_ids SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE {schema}.lanes SET (fillfactor = 30, autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000);

-- It refused messages with too many words. Opening with `text_search` makes the one that takes
-- its place.
DROP INDEX IF EXISTS {schema}.lines_by_words;
