-- A table of lines in parts, by hash of the session, in the place of one that is whole.
LOCK TABLE {schema}.lines, {schema}.backup_lines IN ACCESS EXCLUSIVE MODE;
ALTER TABLE {schema}.lines RENAME TO whole_lines;
ALTER INDEX {schema}.lines_pkey RENAME TO whole_lines_pkey;
ALTER INDEX {schema}.control_lines RENAME TO whole_control_lines;
ALTER TABLE {schema}.backup_lines RENAME TO whole_backup_lines;
ALTER INDEX {schema}.backup_lines_pkey RENAME TO whole_backup_lines_pkey;
CREATE TABLE {schema}.lines (
    LIKE {schema}.whole_lines INCLUDING DEFAULTS INCLUDING STORAGE,
    PRIMARY KEY (session_id, line_at)
) PARTITION BY HASH (session_id);
CREATE TABLE {schema}.backup_lines (
    LIKE {schema}.whole_backup_lines INCLUDING DEFAULTS INCLUDING STORAGE,
    PRIMARY KEY (session_id, number, line_at)
) PARTITION BY HASH (session_id);
{parts}
-- The columns are the same, in the same order.
INSERT INTO {schema}.lines SELECT * FROM {schema}.whole_lines;
INSERT INTO {schema}.backup_lines SELECT * FROM {schema}.whole_backup_lines;
CREATE INDEX control_lines ON {schema}.lines (session_id, line_at) WHERE kind IN (1, 2, 3);
DROP TABLE {schema}.whole_lines;
DROP TABLE {schema}.whole_backup_lines;
