-- server_time() -> now timestamptz
select pg_catalog.now() as now
