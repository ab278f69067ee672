-- note_block(worker int, job bigint, token bigint, error text) -> id bigint
select id from asyncq._note_block($1, $2, $3, $4) as id
