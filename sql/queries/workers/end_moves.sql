-- end_moves(horizon bigint) -> void
update asyncq._tasks set unmoved_since = null where unmoved_since < $1::bigint::text::xid8
