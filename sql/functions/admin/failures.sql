-- Discarded jobs by task and first line of the last error: of the newest `most` of them. The largest group comes first.
-- first_line is cut at 500 characters; job_id is the newest job of the group.
create or replace function asyncq.failures(most int default 5000)
  returns table (task text, first_line text, jobs bigint, newest timestamptz, job_id bigint)
  language sql volatile security definer
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set jit = off
  as $$
  select task.identifier, grouped.first_line, grouped.jobs, grouped.newest, grouped.job_id
  from (
    select failed.task_id, failed.first_line, count(*) as jobs, max(failed.updated_at) as newest,
      (array_agg(failed.id order by failed.updated_at desc, failed.id desc))[1] as job_id
    from (
      select job.id, job.task_id, job.updated_at, asyncq._first_line(job.last_error) as first_line
      from asyncq._jobs as job where asyncq._is_discarded(job)
      order by job.updated_at desc limit least(most, 20000)) as failed
    group by failed.task_id, failed.first_line) as grouped
  join asyncq._tasks as task on task.id = grouped.task_id
  order by grouped.jobs desc, grouped.newest desc, task.identifier
  $$;

-- Discarded jobs, the last one to fail first. The next page begins behind failed_at and id of the last one.
create or replace function asyncq.failed_jobs(before timestamptz default null, before_id bigint default null, most int default 50)
  returns table (id bigint, task text, queue text, failed_at timestamptz, attempts int, max_attempts int, first_line text)
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_custom_plan
  set enable_seqscan = off
  set enable_bitmapscan = off
  set jit = off
  as $$
#variable_conflict use_column
begin
  return query
    select job.id, task.identifier, job.queue, job.updated_at, coalesce(job.attempts_made, job.attempts)::int, job.max_attempts::int,
      asyncq._first_line(job.last_error)
    from (
      select failed.id, failed.task_id, failed.queue, failed.updated_at, failed.attempts_made, failed.attempts,
        failed.max_attempts, failed.last_error
      from asyncq._jobs as failed
      where asyncq._is_discarded(failed)
        and (before is null or failed.updated_at <= before)
        and (before is null or (failed.updated_at, failed.id) < (before, coalesce(before_id, 0)))
      order by failed.updated_at desc, failed.id desc limit least(most, 1000)) as job
    join asyncq._tasks as task on task.id = job.task_id
    order by job.updated_at desc, job.id desc;
end
$$;

-- The first line of an error, at most 500 characters of it: the part that the role of dashboards may see.
create or replace function asyncq._first_line(error text) returns text
  language sql immutable parallel safe
  as $$ select left(split_part(error, E'\n', 1), 500) $$;
