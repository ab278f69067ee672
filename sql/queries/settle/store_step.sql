-- store_step(worker int, job bigint, token bigint, name text, result text) -> stored boolean
select asyncq._store_step($1, $2, $3, $4, $5) as stored
