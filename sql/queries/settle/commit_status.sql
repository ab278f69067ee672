-- commit_status(worker int, job bigint, token bigint, xid text) -> commit_status text
select asyncq._commit_status($1, $2, $3, $4) as commit_status
