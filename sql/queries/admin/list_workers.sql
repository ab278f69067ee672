-- list_workers() -> id int, host text, pid int, state text, running bigint, concurrency int, started_at timestamptz, last_seen timestamptz, silent_s float8, lease_s float8, locks bool, tasks text[], stuck bigint[]
select id, host, pid, state, running, concurrency, started_at, last_seen, silent_s, lease_s, locks, tasks, stuck from asyncq._list_workers()
