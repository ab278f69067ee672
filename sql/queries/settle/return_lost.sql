-- return_lost(worker int, tokens bigint[]) -> id bigint
select id from asyncq._return_lost($1, $2) as id
