-- unpack_claim(worker int, job bigint, token bigint) -> state text
select asyncq._unpack_claim($1, $2, $3) as state
