-- Which of a session's message ids are the oldest: those that were taken before these columns
-- were there, and then in the order of their turns. A session's row counts what was taken.
ALTER TABLE {schema}.sessions ADD COLUMN taken bigint NOT NULL DEFAULT 0;
ALTER TABLE {schema}.message_ids ADD COLUMN turn bigint NOT NULL DEFAULT 0;
