-- A page of jobs in the order of their ids: those in this state, of this task and queue, with this flag; null is any. The next
-- page begins after the last id of this one, whatever comes and goes meanwhile.

create or replace function asyncq.list_jobs(
  state text default null, task_identifier text default null, queue_name text default null, flag text default null,
  after bigint default 0, most int default 100) returns setof asyncq.jobs
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
  select found.*
  from asyncq.jobs as found
  where found.id = any(array(
    select (listed.document::json ->> 'id')::bigint
    from asyncq._list_jobs(
      list_jobs.state, list_jobs.task_identifier, list_jobs.queue_name, list_jobs.flag, list_jobs.after,
      list_jobs.most) as listed(document)))
  order by found.id
  $$;
