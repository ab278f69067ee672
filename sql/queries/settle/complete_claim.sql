-- complete_claim(worker int, job bigint, token bigint, xid text) -> ending text
select asyncq._complete_claim($1, $2, $3, $4) as ending
