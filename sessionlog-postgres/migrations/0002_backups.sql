-- What sessions were before they were taken back, cleared or replaced, hidden lines included:
-- a row each, and one per line, so that a backup may be as long as a session. A session's row
-- has the highest number that was given, which outlives the backup: a number that somebody
-- wrote down never means another one.
ALTER TABLE {schema}.sessions ADD COLUMN backups bigint NOT NULL DEFAULT 0;

-- reason: 0 revert, 1 clear, 2 restore, 3 import, 4 conflict. made_ms: milliseconds since 1970.
-- start_at, end_at, lines, hidden, messages: what the session's row said.
CREATE TABLE {schema}.backups (
    session_id bigint NOT NULL,
    number     bigint NOT NULL,
    reason     smallint NOT NULL,
    made_ms    bigint NOT NULL,
    size       bigint NOT NULL,
    start_at   bigint NOT NULL,
    end_at     bigint NOT NULL,
    lines      bigint NOT NULL,
    hidden     bigint NOT NULL,
    messages   bigint NOT NULL,
    PRIMARY KEY (session_id, number)
);

-- As in the table of lines.
CREATE TABLE {schema}.backup_lines (
    session_id bigint NOT NULL,
    number     bigint NOT NULL,
    line_at    bigint NOT NULL,
    kind       smallint NOT NULL,
    line       bytea NOT NULL,
    said       text,
    PRIMARY KEY (session_id, number, line_at)
);
