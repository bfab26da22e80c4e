-- A copy of a message's text is in its row only if searches do not find it in its line. Opening
-- with `text_search` makes the index that takes the place of this one, which had the copies only.
DROP INDEX IF EXISTS {schema}.lines_by_text;
