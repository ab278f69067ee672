-- Remove what is not needed any more. tasks say what, in graphile-worker's words:
--   GC_TASK_IDENTIFIERS      names of tasks that no job, no ended job and no worker uses, two cleanups in a row;
--                            task_identifiers_to_keep stay
--   GC_JOB_QUEUES            nothing: there is nothing left of a queue when none of its jobs runs
--   DELETE_PERMAFAILED_JOBS  discarded jobs; what another transaction holds is skipped
-- Safe at any time, beside adds and workers. Returns how many of each were removed.

create or replace function asyncq.cleanup(
  tasks text[] default '{GC_JOB_QUEUES,GC_TASK_IDENTIFIERS}', task_identifiers_to_keep text[] default null)
  returns table (task text, removed bigint)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  unknown text;
  discarded bigint[];
begin
  select coalesce(given.name, 'null') into unknown from unnest(tasks) as given(name)
    where given.name is null or given.name not in ('DELETE_PERMAFAILED_JOBS', 'GC_JOB_QUEUES', 'GC_TASK_IDENTIFIERS') limit 1;
  if found then
    raise exception using errcode = '22023', column = 'tasks',
      message = 'cleanup knows no task ' || unknown
        || ', expected DELETE_PERMAFAILED_JOBS, GC_JOB_QUEUES or GC_TASK_IDENTIFIERS';
  end if;
  if 'DELETE_PERMAFAILED_JOBS' = any(tasks) then
    discarded := array(
      select job.id from asyncq._jobs as job where asyncq._has_failed(job) order by job.id for update skip locked);
    perform asyncq._end_jobs(discarded, 'discarded');
    return query select 'DELETE_PERMAFAILED_JOBS', cardinality(discarded)::bigint;
  end if;
  if 'GC_JOB_QUEUES' = any(tasks) then
    return query select 'GC_JOB_QUEUES', 0::bigint;
  end if;
  if 'GC_TASK_IDENTIFIERS' = any(tasks) then
    return query select 'GC_TASK_IDENTIFIERS', asyncq._collect_tasks(task_identifiers_to_keep);
  end if;
end
$$;
