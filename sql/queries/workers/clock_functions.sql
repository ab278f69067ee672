-- clock_functions() -> source text
select trim(prosrc) as source from pg_catalog.pg_proc
where oid in ('asyncq.now()'::regprocedure, 'asyncq.clock()'::regprocedure)
