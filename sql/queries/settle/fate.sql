-- fate(worker int, job bigint, token bigint, xid text) -> fate text
select asyncq._fate($1, $2, $3, $4) as fate
