CREATE INDEX IF NOT EXISTS lines_by_words ON {schema}.lines
    USING gin (to_tsvector('simple', said)) WHERE said IS NOT NULL;
