-- One row per session: what an append changes, and what it leaves alone. Its lock is what
-- orders a session's changes. Columns that every append changes are in no index, so that
-- PostgreSQL can update the row in place (HOT); updated_minute is, and changes once a minute.
CREATE TABLE {schema}.sessions (
    session_id     bigint PRIMARY KEY,
    key            text NOT NULL,
    file_name      bytea NOT NULL,
    version        bigint NOT NULL,
    history        bigint NOT NULL,
    start_at       bigint NOT NULL,
    end_at         bigint NOT NULL,
    lines          bigint NOT NULL,
    hidden         bigint NOT NULL,
    messages       bigint NOT NULL,
    summary        bytea NOT NULL,
    scope          text,
    agent          text NOT NULL,
    channel        text NOT NULL,
    aliases        text NOT NULL,
    created_at     text NOT NULL,
    updated_at     text NOT NULL,
    updated_ns     bigint NOT NULL,
    updated_minute bigint NOT NULL
);
CREATE UNIQUE INDEX sessions_by_key ON {schema}.sessions (key);
CREATE INDEX sessions_by_name ON {schema}.sessions (file_name, key);
CREATE INDEX sessions_by_update ON {schema}.sessions (updated_minute);

-- One row per line, its bytes as a session file would have them, without the line feed.
-- line_at is where the line would begin in that file: what positions are made of.
-- kind: 0 message, 1 token count, 2 checkpoint, 3 system prompt, 4 without effect.
-- said: a message's text, for searches.
CREATE TABLE {schema}.lines (
    session_id bigint NOT NULL,
    line_at    bigint NOT NULL,
    kind       smallint NOT NULL,
    line       bytea NOT NULL,
    said       text,
    PRIMARY KEY (session_id, line_at)
);
CREATE INDEX control_lines ON {schema}.lines (session_id, line_at) WHERE kind IN (1, 2, 3);

-- Which session an alias means: the first by file name of those that have it. Only aliases
-- that can be keys are here; a session's row has all.
CREATE TABLE {schema}.session_aliases (
    session_id  bigint NOT NULL,
    alias       text NOT NULL,
    file_name   bytea NOT NULL,
    session_key text NOT NULL,
    PRIMARY KEY (session_id, alias)
);
CREATE INDEX aliases_by_name ON {schema}.session_aliases (alias, file_name);

-- The ids of messages that are taken once.
CREATE TABLE {schema}.message_ids (
    session_id bigint NOT NULL,
    message_id bytea NOT NULL,
    PRIMARY KEY (session_id, message_id)
);

-- What each writer committed last: where a commit is looked for whose answer was lost.
CREATE TABLE {schema}.lanes (
    lane_id bigint PRIMARY KEY,
    token   bigint NOT NULL,
    settled bigint NOT NULL,
    seen_at timestamptz NOT NULL
);

-- Who listens for changes, and until when: nobody is notified while nobody does.
CREATE TABLE {schema}.followers (
    follower_id bigint PRIMARY KEY,
    until       timestamptz NOT NULL
);
