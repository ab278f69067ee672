-- settle_rest(worker int, ids bigint[], tokens bigint[], ends text[], attempts int[], delays_s float8[], errors text[], interruptions int[], kinds text[], durations_s float8[], results text[], payloads text[]) -> id bigint, ending text
select id, ending from asyncq._settle_rest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
