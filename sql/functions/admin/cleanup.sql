-- Remove data that is not needed any more. tasks are the names that graphile-worker uses:
--   GC_TASK_IDENTIFIERS      names of tasks that no job, no ended job and no worker uses, two cleanups in a row;
--                            task_identifiers_to_keep stay
--   GC_JOB_QUEUES            nothing: there is nothing left of a queue when none of its jobs runs
--   DELETE_PERMAFAILED_JOBS  discarded jobs, except those that another transaction locks
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
      select job.id from asyncq._jobs as job where asyncq._is_discarded(job) order by job.id for update skip locked);
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

-- Remove the names of tasks that nothing uses, and return how many. Adds and workers are not slowed down.
--
-- It takes two calls. The first one retires a name: it marks the row. A transaction that looks up a retired name to use
-- it clears the mark (_task_ids). A worker looks up its names after its row lists them. So the second call considers
-- only transactions that have not seen the mark. Some looked up the name before it, and hold a lock on the table. The
-- others have an older snapshot. The call waits for both for a while; if they stay, it leaves the name to the next
-- call. Then no transaction can have the number of a task that is still marked. If nothing uses it now, nothing will.
create or replace function asyncq._collect_tasks(keep text[] default null, patience interval default '1 s') returns bigint
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  kept constant text[] := coalesce(array_remove(keep, null), '{}');
  me constant xid8 := pg_current_xact_id();
  until constant timestamptz := pg_catalog.clock_timestamp() + patience;
  retired int[];
  marks xid8[];
  used int[];
  removed bigint := 0;
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception using errcode = '0A000', column = 'tasks',
      message = 'GC_TASK_IDENTIFIERS works at READ COMMITTED only: an old snapshot does not show what uses a name';
  end if;

  select array_agg(task.id), array_agg(task.retired_in) into retired, marks
    from asyncq._tasks as task where task.retired_in < me and task.identifier <> all(kept);
  if retired is not null and asyncq._outlived(marks, until) then
    retired := array(
      select task.id from asyncq._tasks as task
      where task.id = any(retired) and task.retired_in = marks[array_position(retired, task.id)]
      order by task.id for update skip locked);
    -- A statement of its own, whose snapshot is newer than all those transactions.
    used := asyncq._used_tasks();
    delete from asyncq._tasks as task where task.id = any(retired) and task.id <> all(used);
    get diagnostics removed = row_count;
  end if;

  used := asyncq._used_tasks();
  update asyncq._tasks as task set retired_in = me
    where task.id = any(array(
      select unused.id from asyncq._tasks as unused
      where (unused.retired_in is null or unused.retired_in > me) and unused.identifier <> all(kept)
        and unused.id <> all(used)
      order by unused.id for update skip locked));
  return removed;
end
$$;

-- Wait for the end of every transaction that may not have seen these marks: it holds a lock on _tasks, or its snapshot
-- is older than a mark. The transactions that set the marks have ended. Returns false if that takes too long.
create or replace function asyncq._outlived(marks xid8[], until timestamptz) returns boolean
  language plpgsql volatile
  as $$
declare
  newest constant xid8 := (select max(mark::text::numeric)::text::xid8 from unnest(marks) as mark);
  holders constant text[] := array(
    select distinct held.virtualtransaction from pg_catalog.pg_locks as held
    where held.locktype = 'relation' and held.relation = 'asyncq._tasks'::regclass
      and held.database = (select oid from pg_catalog.pg_database where datname = current_database())
      and held.pid is distinct from pg_backend_pid());
begin
  loop
    perform pg_stat_clear_snapshot();
    if not exists (select from pg_catalog.pg_locks as held where held.virtualtransaction = any(holders))
      and not exists (
        select from pg_catalog.pg_stat_activity as reader
        where reader.datname = current_database() and reader.pid <> pg_backend_pid()
          and age(reader.backend_xmin) >= age(newest::xid))
    then
      return true;
    end if;
    if pg_catalog.clock_timestamp() > until then
      return false;
    end if;
    perform pg_sleep(0.01);
  end loop;
end
$$;

-- The ids of all tasks in use: by a job, an ended job that is kept, or a worker that has a row; or paused.
create or replace function asyncq._used_tasks() returns int[]
  language sql volatile
  as $$
  select array(
    select job.task_id from asyncq._jobs as job
    union
    select unnest(batch.task_id) from asyncq._batches as batch
    union
    select ended.task_id from asyncq._ended_jobs as ended
    union
    select task.id from asyncq._tasks as task where task.paused_at is not null
    union
    select task.id from asyncq._tasks as task join asyncq._workers as worker on task.identifier = any(worker.tasks))
  $$;
