-- beat(worker int) -> id int
-- Prove that the worker lives; no row means that it was declared dead meanwhile.
update asyncq._workers set last_seen = pg_catalog.clock_timestamp() where id = $1 returning id
