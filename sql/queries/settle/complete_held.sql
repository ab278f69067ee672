-- complete_held(worker int, job bigint, token bigint, xid text) -> ending text
select asyncq._complete_held($1, $2, $3, $4) as ending
