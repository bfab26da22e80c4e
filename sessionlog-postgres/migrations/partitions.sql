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
-- Owners, and who may do what, are as they were; with the parts too, which dumps read one by one.
DO $do$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        WITH pairs (whole, new) AS (VALUES
            ('{schema}.whole_lines'::regclass, '{schema}.lines'::regclass),
            ('{schema}.whole_backup_lines'::regclass, '{schema}.backup_lines'::regclass)
        ), tables AS (
            SELECT whole, new FROM pairs
            UNION ALL
            SELECT whole, inhrelid::regclass FROM pairs JOIN pg_inherits ON inhparent = new
        ), granted AS (
            SELECT new, relowner, NULL::name AS of_column, acl.*
            FROM tables JOIN pg_class c ON c.oid = whole, aclexplode(relacl) AS acl
            UNION ALL
            SELECT new, relowner, attname, acl.*
            FROM tables JOIN pg_class c ON c.oid = whole
                JOIN pg_attribute a ON a.attrelid = whole AND NOT a.attisdropped,
                aclexplode(attacl) AS acl
        ), steps (step, said) AS (
            SELECT 1, format('ALTER TABLE %s OWNER TO %I', new, pg_get_userbyid(old.relowner))
            FROM tables JOIN pg_class old ON old.oid = whole JOIN pg_class made ON made.oid = new
            WHERE old.relowner <> made.relowner
            UNION ALL
            SELECT 2, format('GRANT %s %s ON %s TO %s %s', privilege_type,
                '(' || quote_ident(of_column) || ')', new,
                CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
                CASE WHEN is_grantable THEN 'WITH GRANT OPTION' END)
            FROM granted WHERE grantee <> relowner
        )
        SELECT said FROM steps ORDER BY step
    LOOP
        EXECUTE statement;
    END LOOP;
END $do$;
DROP TABLE {schema}.whole_lines;
DROP TABLE {schema}.whole_backup_lines;
