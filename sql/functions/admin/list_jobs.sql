-- A page of jobs in the order of their ids: those in this state, of this task and queue, with this flag; null is any.
-- The next page begins after the last id of this one, whatever is added or removed meanwhile.
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

-- Jobs in the order of their ids, after one id, as documents; null is any state, task, queue, flag. It walks along the
-- primary key until the page is full, and reads all jobs before the rare ones. The plan is made for the arguments, so
-- that nulls cost nothing. Without scans a page costs the same in a large table.
create or replace function asyncq._list_jobs(
  of_state text, of_task text, of_queue text, with_flag text, after_id bigint, most int) returns setof text
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_custom_plan
  set enable_seqscan = off
  set enable_bitmapscan = off
  set jit = off
  as $$
declare
  wanted_task constant int := (select task.id from asyncq._tasks as task where task.identifier = of_task);
  many constant int := 1000;
  near constant int := 20000;
  page bigint[];
begin
  if of_state is distinct from 'discarded' then
    return query
      select listed.document
      from (
        (select job.id, asyncq._document(job)::text as document
          from asyncq._jobs as job
          where (of_state is null or asyncq._state(job) = of_state)
            and (of_task is null or job.task_id = wanted_task) and (of_queue is null or job.queue = of_queue)
            and (with_flag is null or job.flags ? with_flag) and job.id > after_id
          order by job.id limit most)
        union all
        -- A job of a batch has no flags.
        (select batched.id, asyncq._document(batched)::text
          from asyncq._batched_jobs() as batched
          where (of_state is null or asyncq._state(batched) = of_state)
            and (of_task is null or batched.task_id = wanted_task) and (of_queue is null or batched.queue = of_queue)
            and with_flag is null and batched.id > after_id
          order by batched.id limit most)) as listed
      order by listed.id limit most;
    return;
  end if;
  if exists (select from asyncq._jobs as job where asyncq._is_discarded(job) offset many limit 1) then
    -- If many jobs are discarded, the next ones are near. A whole row would include its payload: columns are named.
    page := array(
      select walked.id
      from (
        select job.id, job.task_id, job.queue, job.flags, asyncq._is_discarded(job) as is_discarded
        from asyncq._jobs as job where job.id > after_id order by job.id limit near) as walked
      where walked.is_discarded
        and (of_task is null or walked.task_id = wanted_task) and (of_queue is null or walked.queue = of_queue)
        and (with_flag is null or walked.flags ? with_flag)
      order by walked.id limit most);
    if cardinality(page) < most
      and exists (select from asyncq._jobs as job where job.id > after_id order by job.id offset near limit 1) then
      page := null;
    end if;
  end if;
  if page is null then
    -- If few are, their index finds all of them, in another order; then they are sorted.
    page := array(
      with failed as materialized (
        select job.id from asyncq._jobs as job
        where asyncq._is_discarded(job)
          and (of_task is null or job.task_id = wanted_task) and (of_queue is null or job.queue = of_queue)
          and (with_flag is null or job.flags ? with_flag))
      select failed.id from failed where failed.id > after_id order by failed.id limit most);
  end if;
  return query
    select written.document
    from unnest(page) as listed(id)
    cross join lateral (
      select asyncq._document(job)::text from asyncq._jobs as job where job.id = listed.id offset 0) as written(document)
    order by listed.id;
end
$$;
