-- unpack(worker int, tokens bigint[]) -> id bigint
select id from asyncq._unpack_claims($1, $2) as id
