-- may_add() -> directly boolean, by_enqueue boolean
-- Whether the current role may call the functions that add jobs. Any role may read this from the catalogue.
select
  coalesce(bool_or(routine.proname = '_add_jobs'), false) as directly,
  coalesce(bool_or(routine.proname = 'enqueue'), false) as by_enqueue
from pg_catalog.pg_proc as routine
join pg_catalog.pg_namespace as space on space.oid = routine.pronamespace
where space.nspname = 'asyncq' and routine.proname in ('_add_jobs', 'enqueue')
  and pg_catalog.has_schema_privilege(space.oid, 'usage') and pg_catalog.has_function_privilege(routine.oid, 'execute')
