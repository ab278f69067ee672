-- hold_claim(worker int, job bigint, token bigint) -> xid text, pid int, stands boolean
select xid, pid, stands from asyncq._hold_claim($1, $2, $3)
