-- The oldest of a session's message ids are found by their turns, without a look at the others.
-- Those of which the order is not known get turns before all others, one each: as many are
-- forgotten at a time as there are turns.
UPDATE {schema}.message_ids m SET turn = o.turn
FROM (SELECT session_id, message_id,
          -row_number() OVER (PARTITION BY session_id ORDER BY message_id) AS turn
      FROM {schema}.message_ids WHERE turn = 0) AS o
WHERE m.session_id = o.session_id AND m.message_id = o.message_id;
-- Only what asks for it has this index, all turns being others than 0: whoever looks for one id
-- would read all of its session by it.
CREATE INDEX message_ids_by_turn ON {schema}.message_ids (session_id, turn) WHERE turn <> 0;
