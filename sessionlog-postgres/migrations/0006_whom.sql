-- The ids of the people and chats that a session is with, for lists and erasures; none were found
-- out yet where there is NULL. Opening finds them out. An append changes no indexed column.
ALTER TABLE {schema}.sessions ADD COLUMN whom text[];
CREATE INDEX sessions_by_whom ON {schema}.sessions USING gin (whom);
CREATE INDEX sessions_without_whom ON {schema}.sessions (session_id) WHERE whom IS NULL;
