-- checkup(open_for_s float8) -> up_since timestamptz, in_recovery boolean, live int, gone int, known_tasks int[], holders text[]
-- How a server and its workers are, for `doctor`: which workers live, which tasks they know, and who has kept dead rows from being
-- removed for so long, oldest first.
with worker as (
  select tasks, asyncq._is_live(worker) as is_live from asyncq._workers as worker)
select
  pg_catalog.pg_postmaster_start_time() as up_since,
  pg_catalog.pg_is_in_recovery() as in_recovery,
  (select count(*)::int from worker where is_live) as live,
  (select count(*)::int from worker where not is_live) as gone,
  array(
    select task.id from asyncq._tasks as task
    where exists (select from worker where is_live and task.identifier = any(worker.tasks))) as known_tasks,
  array(
    select held.said from (
      select xact_start as since, pg_catalog.format('process %s (%s, %s), in a transaction since %s',
        pid, usename, application_name, pg_catalog.date_trunc('second', xact_start)) as said
      from pg_catalog.pg_stat_activity
      where backend_type = 'client backend' and pid <> pg_catalog.pg_backend_pid()
      union all
      select prepared, pg_catalog.format('the prepared transaction %s of %s, since %s',
        gid, owner, pg_catalog.date_trunc('second', prepared))
      from pg_catalog.pg_prepared_xacts where database = pg_catalog.current_database()) as held
    where held.since < pg_catalog.clock_timestamp() - make_interval(secs => $1::float8)
    order by held.since limit 5) as holders
