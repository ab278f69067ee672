-- lock_claim(worker int, job bigint, token bigint) -> xid text, pid int, state text
select xid, pid, state from asyncq._lock_claim($1, $2, $3)
