-- unpack(worker int, tokens bigint[]) -> id bigint
-- Unpack the batches in which settle_changed has left jobs alone; then it finds their rows.
select id from asyncq._unpack_claims($1, $2) as id
