-- end_moves(horizon bigint) -> identifier text
-- The jobs of tasks that got a limit before this transaction have been moved. Returns their names.
update asyncq._tasks set unmoved_since = null where unmoved_since < $1::bigint::text::xid8 returning identifier
