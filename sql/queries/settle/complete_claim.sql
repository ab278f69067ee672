-- complete_claim(worker int, job bigint, token bigint, xid text, result text, duration_s float8, rest text, fault text) -> ending text
select asyncq._complete_claim($1, $2, $3, $4, $5, $6, $7, $8) as ending
