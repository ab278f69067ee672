-- checkup() -> up_since timestamptz, in_recovery boolean, live int, gone int, known_tasks int[], notifications float8, sees_all boolean
-- The state of a server and its workers, for `doctor`. live, gone: numbers of workers. known_tasks: the tasks of live
-- workers. notifications: the used share of the notification queue. sees_all: the activity of other roles is visible.
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
  case when not pg_catalog.pg_is_in_recovery() then pg_catalog.pg_notification_queue_usage() end as notifications,
  pg_catalog.pg_has_role('pg_read_all_stats', 'usage') as sees_all
