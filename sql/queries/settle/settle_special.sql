-- settle_special(worker int, ids bigint[], tokens bigint[], done boolean[]) -> id bigint, ending text
select id, ending from asyncq._settle_special($1, $2, $3, $4)
