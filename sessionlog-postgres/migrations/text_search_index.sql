CREATE INDEX IF NOT EXISTS lines_by_text ON {schema}.lines
    USING gin (to_tsvector('simple', left(said, 65536))) WHERE said IS NOT NULL;
