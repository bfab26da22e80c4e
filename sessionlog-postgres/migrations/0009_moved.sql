-- Whether an alias was a key, of a session that got another one or was put before another: what
-- is written under it goes there also if it takes keys literally. It may have been under way.
ALTER TABLE {schema}.session_aliases ADD COLUMN was_key boolean NOT NULL DEFAULT false;
