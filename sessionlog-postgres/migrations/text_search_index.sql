-- What searches for words have of a line: the words of its text, or of the copy of it, up to as
-- many characters as are less than what a message may have of them. What is read out of a line is
-- the same whatever the settings, so that an index may have it.
DO $do$ BEGIN
    CREATE FUNCTION {schema}.words(line bytea, said text) RETURNS tsvector
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
        SELECT pg_catalog.to_tsvector('pg_catalog.simple', pg_catalog.left(
            coalesce($2, pg_catalog.convert_from($1, 'UTF8')::pg_catalog.json ->> 'content'),
            65536))
    $$;
EXCEPTION WHEN duplicate_function OR unique_violation THEN NULL;
END $do$;
CREATE INDEX IF NOT EXISTS words_of_lines ON {schema}.lines
    USING gin ({schema}.words(line, said)) WHERE kind = 0;
