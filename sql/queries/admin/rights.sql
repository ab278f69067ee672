-- rights() -> server text, schema_version int, is_standby boolean, may_change boolean, may_add boolean
-- What the server is, and what the current role may do with jobs: nothing where its transactions only read.
select pg_catalog.current_setting('server_version') as server,
  (select max(id) from asyncq._migrations) as schema_version,
  pg_catalog.pg_is_in_recovery() as is_standby,
  pg_catalog.current_setting('transaction_read_only') = 'off'
    and coalesce(bool_or(routine.proname = '_administer_jobs'), false) as may_change,
  pg_catalog.current_setting('transaction_read_only') = 'off'
    and coalesce(bool_or(routine.proname = '_add_jobs'), false) as may_add
from pg_catalog.pg_proc as routine
join pg_catalog.pg_namespace as space on space.oid = routine.pronamespace
where space.nspname = 'asyncq' and routine.proname in ('_add_jobs', '_administer_jobs')
  and pg_catalog.has_function_privilege(routine.oid, 'execute')
