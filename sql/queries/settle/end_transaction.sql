-- end_transaction(pid int, xid text) -> ended boolean
-- End the connection of a transaction, if it is still open. Another transaction of the same process is left alone.
select pg_catalog.pg_terminate_backend(pid) as ended from pg_catalog.pg_stat_activity
where pid = $1 and backend_xid = ($2::text::xid8)::xid
