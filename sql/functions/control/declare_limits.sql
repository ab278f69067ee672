-- Store the limits that a worker declares when it registers: those of its tasks with their keys, and those of queues.
-- Values that were set by hand stay in force. A task without a limit loses the one that it had, and a limit that no
-- task has any more limits nothing. Tasks without a row are left out, and the worker declares them again. The last
-- worker that registers decides.
--
-- Returns the limits and queues that were declared with other values before, with the worker that did that. A row
-- without values names a task whose row another transaction locks. The worker must not wait for that, nor take such
-- jobs without their limit: it asks again.
create or replace function asyncq._declare_limits(declaration json, declared_by text)
  returns table (kind text, name text, before jsonb, after jsonb, was_by text)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  held asyncq._limits;
  wanted record;
  moment constant timestamptz := asyncq.now();
  lost constant smallint[] := array(select changed.was from asyncq._changed_tasks(declaration -> 'tasks') as changed);
begin
  -- Locks are taken in one order: all limits that may change, the table if one is new, partitions. Of two declarations
  -- that take the last two tasks from a limit the second one waits here, and then sees the first.
  perform from asyncq._limits as row
    where row.id = any(lost) or exists (
      select from json_array_elements(declaration -> 'limits') as sent
      where sent ->> 'name' = row.name and jsonb_strip_nulls(sent::jsonb) - 'name' is distinct from row.declared)
    order by row.id for update;
  perform asyncq._limit_id(sent ->> 'name') from json_array_elements(declaration -> 'limits') as sent;
  for wanted in
    select sent ->> 'name' as name, jsonb_strip_nulls(sent::jsonb) - 'name' as given
    from json_array_elements(declaration -> 'limits') as sent order by sent ->> 'name' collate "C"
  loop
    if exists (select from asyncq._limits as row where row.name = wanted.name and row.declared = wanted.given) then
      continue;
    end if;
    select row.* into held from asyncq._limits as row where row.name = wanted.name for update;
    if held.declared is distinct from wanted.given then
      if held.declared is not null then
        return query select 'limit', wanted.name, held.declared, wanted.given, held.declared_by;
      end if;
      held.declared := wanted.given;
      held.declared_at := moment;
      held.declared_by := declared_by;
      perform asyncq._store_limit(held);
    end if;
  end loop;
  return query select 'task', task.identifier, null::jsonb, null::jsonb, null::text
    from asyncq._declare_tasks(declaration -> 'tasks') as task(identifier);
  return query select 'limit', unused.name, unused.before, '{}'::jsonb, unused.was_by
    from asyncq._end_limits(lost, declared_by) as unused;
  return query select 'queue', queue.name, queue.before, queue.after, queue.was_by
    from asyncq._declare_queues(declaration -> 'queues', declared_by) as queue;
end
$$;

-- End what was declared for those of these limits that no task has any more: their waiting jobs stay in the partitions,
-- and start. What was set by hand holds until it is unset. If a task gets such a limit again, it is declared again. The
-- caller has locked their rows.
create or replace function asyncq._end_limits(ids smallint[], ended_by text) returns table (name text, before jsonb, was_by text)
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  held asyncq._limits;
begin
  for held in
    select unused.* from asyncq._limits as unused
    where unused.id = any(ids) and unused.declared is not null
      and not exists (select from asyncq._tasks as task where task.limit_id = unused.id)
    order by unused.id
  loop
    return query select held.name, held.declared, held.declared_by;
    held.declared := null;
    held.declared_at := asyncq.now();
    held.declared_by := ended_by;
    perform asyncq._store_limit(held);
  end loop;
end
$$;

-- Store which limits tasks have, and the keys. Their jobs that are in other partitions will be moved, see _move_jobs.
-- The jobs of a task that was paused without a limit are in partitions of limit 2, which it keeps until it has another
-- one. Returns the tasks whose rows another transaction locks, and which are left as they are.
create or replace function asyncq._declare_tasks(declared json) returns setof text
  language plpgsql volatile
  as $$
declare
  changed smallint[];
begin
  with locked as materialized (
    select task.id, given.was, given.limit_id, given.by
    from asyncq._changed_tasks(declared) as given join asyncq._tasks as task on task.id = given.id
    order by task.id for no key update of task skip locked),
  stored as (
    update asyncq._tasks as task
      -- A paused task has a limit, also if it was paused at this moment.
      set limit_id = coalesce(locked.limit_id, case when task.paused_at is not null then 2::smallint end), by = locked.by,
        unmoved_since = case when locked.limit_id is not null then pg_current_xact_id() end
    from locked where task.id = locked.id
    returning locked.was, locked.limit_id)
  select array_agg(stored.was) || array_agg(stored.limit_id) into changed from stored;
  -- Their gates count the claims of other tasks from now on.
  perform asyncq._recount_gates(changed);
  -- The first page: few jobs wait when most deployments set a limit.
  perform asyncq._move_jobs(0, 1000);
  return query select late.identifier from asyncq._changed_tasks(declared) as late;
end
$$;

-- The tasks whose limit or key is another one than is declared: the limit that each has (was), and the declared ones.
create or replace function asyncq._changed_tasks(declared json)
  returns table (id int, identifier text, was smallint, limit_id smallint, by text[])
  language sql stable
  as $$
  select task.id, task.identifier, task.limit_id, wanted.limit_id, wanted.by
  from json_array_elements(declared) as sent
  join asyncq._tasks as task on task.identifier = sent ->> 'identifier'
  cross join lateral (
    select
      coalesce(
        (select held.id from asyncq._limits as held where held.name = sent ->> 'limit'),
        case when task.limit_id = 2 or task.paused_at is not null then 2::smallint end) as limit_id,
      (select array_agg(member order by ordinality) from json_array_elements_text(
        case json_typeof(sent -> 'by') when 'array' then sent -> 'by' end) with ordinality as path(member, ordinality)) as by) as wanted
  where (task.limit_id, task.by) is distinct from (wanted.limit_id, wanted.by)
  $$;

-- Store the limits of queues: each is the row of a partition, which stays.
create or replace function asyncq._declare_queues(declared json, declared_by text)
  returns table (name text, before jsonb, after jsonb, was_by text)
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  wanted record;
  held asyncq._partitions;
begin
  for wanted in
    select asyncq._partition(1::smallint, sent ->> 'name') as id, sent ->> 'name' as name,
      jsonb_strip_nulls(sent::jsonb) - 'name' as given
    from json_array_elements(declared) as sent order by 1
  loop
    if exists (select from asyncq._partitions as row where row.id = wanted.id and row.declared = wanted.given) then
      continue;
    end if;
    insert into asyncq._partitions (id, key) values (wanted.id, wanted.name) on conflict do nothing;
    select row.* into held from asyncq._partitions as row where row.id = wanted.id for no key update;
    if held.declared is distinct from wanted.given then
      if held.declared is not null then
        return query select wanted.name, held.declared, wanted.given, held.declared_by;
      end if;
      held.key := wanted.name;
      held.declared := wanted.given;
      held.declared_by := declared_by;
      perform asyncq._store_partition(held);
    end if;
  end loop;
end
$$;
