-- Titles, labels, pins, and fields that this crate does not know, as a session's sidecar has them:
-- a JSON object, in a row of its own, so that no append writes them again. labels and pinned are
-- the same once more, for lists; what an array of texts cannot hold of a label is a space there.
CREATE TABLE {schema}.session_tags (
    session_id bigint PRIMARY KEY,
    tags       text NOT NULL,
    labels     text[] NOT NULL,
    pinned     boolean NOT NULL
);
-- Labels change seldom: a list of changes that are not in the index yet would cost each look.
CREATE INDEX sessions_by_label ON {schema}.session_tags USING gin (labels)
    WITH (fastupdate = off);
CREATE INDEX pinned_sessions ON {schema}.session_tags (session_id) WHERE pinned;
