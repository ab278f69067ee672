-- Pause a task, a queue, a limit or one key of it; without any of them, everything. From the commit on no fetch claims
-- a job of it until it is resumed. Running jobs run on. Workers return the jobs that they have claimed and not started.
-- A fetch or an add whose statement began before may still claim jobs, an add one at most. The name need not exist: the
-- pause holds when the task, queue or key exists. If it is paused already, only by and the reason change. by is the
-- role of the session by default. Returns the pause.
create or replace function asyncq.pause(
  task text default null, queue text default null, limit_name text default null, key text default null,
  reason text default null, by text default null) returns asyncq.pauses
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  what constant text := asyncq._check_pause(task, queue, limit_name, key, reason, by);
  name constant text := coalesce(task, queue, limit_name);
  author constant text := coalesce(by, session_user);
begin
  perform asyncq._set_pause(what, name, key, asyncq.clock(), author, reason);
  perform asyncq._tell_pause('paused', what, name, key, author, reason);
  if what = 'task' then
    perform asyncq._move_jobs(0, 1000);
  end if;
  return asyncq._pause_of(what, name, key);
end
$$;

-- Resume what pause has paused; the arguments are the same. Returns the pause that has ended; a row of nulls if there
-- was none. It works at READ COMMITTED only: an older snapshot does not show all jobs that need a wakeup.
create or replace function asyncq.resume(
  task text default null, queue text default null, limit_name text default null, key text default null,
  reason text default null, by text default null) returns asyncq.pauses
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  what constant text := asyncq._check_pause(task, queue, limit_name, key, reason, by);
  name constant text := coalesce(task, queue, limit_name);
  ended constant asyncq.pauses := asyncq._pause_of(what, name, key);
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception using errcode = '0A000', column = 'resume',
      message = 'resume works at READ COMMITTED only: an old snapshot does not show all waiting jobs';
  end if;
  if ended.what is not null then
    perform asyncq._set_pause(what, name, key, null, null, null);
    perform asyncq._tell_pause('resumed', what, name, key, coalesce(by, session_user), reason);
  end if;
  return ended;
end
$$;

-- Check the arguments of pause and resume, and return what they name: everything, task, queue, limit or key.
create or replace function asyncq._check_pause(
  task text, queue text, limit_name text, key text, reason text, by text) returns text
  language plpgsql immutable
  as $$
declare
  fault record;
begin
  select given.field, given.value, given.most into fault
    from (values
        ('task', task, 128), ('queue', queue, 128), ('limit_name', limit_name, 128), ('by', by, 128), ('reason', reason, 500))
      as given(field, value, most)
    where length(given.value) > given.most or given.value = '' limit 1;
  if found then
    raise exception using errcode = '22023', column = fault.field,
      message = fault.field || ' has ' || length(fault.value) || ' characters, expected 1 to ' || fault.most;
  elsif num_nonnulls(task, queue, limit_name) > 1 then
    raise exception using errcode = '22023', column = 'task',
      message = 'a task, a queue and a limit cannot be paused or resumed in one call: name one of them';
  elsif key is not null and limit_name is null then
    raise exception using errcode = '22023', column = 'key', message = 'a key is one of a limit: give limit_name too';
  end if;
  return case when task is not null then 'task' when queue is not null then 'queue' when key is not null then 'key'
    when limit_name is not null then 'limit' else 'everything' end;
end
$$;

-- The pause of what is named so; a row of nulls if it is not paused.
create or replace function asyncq._pause_of(what text, name text, key text) returns asyncq.pauses
  language sql stable
  as $$
  select paused from asyncq.pauses as paused
  where paused.what = _pause_of.what and paused.name is not distinct from _pause_of.name
    and paused.key is not distinct from _pause_of.key
  $$;

-- Store a pause, or end it if moment is null. Fetches delete the wakeups of a paused partition. So a resumed one gets
-- new wakeups, in a second statement: its snapshot is newer than the lock of the row.
create or replace function asyncq._set_pause(
  what text, name text, key text, moment timestamptz, by text, why text) returns void
  language plpgsql volatile
  as $$
#variable_conflict use_variable
declare
  limit_id constant smallint := case what when 'everything' then 0 when 'queue' then 1 when 'task' then null
    else asyncq._limit_id(name) end;
  partition_id constant bigint := case what when 'queue' then asyncq._partition(1::smallint, name)
    when 'key' then asyncq._partition(limit_id, key) end;
begin
  if what = 'task' then
    perform asyncq._store_tasks(array[name]);
    -- A task without a limit gets one, so that its jobs are moved into a partition, which fetches do not read.
    if moment is null then
      update asyncq._tasks as task
        set paused_at = null, paused_by = null, paused_why = null, limit_id = nullif(task.limit_id, 2::smallint),
          unmoved_since = case when task.limit_id <> 2 then task.unmoved_since end
        where task.identifier = name;
    else
      update asyncq._tasks as task
        set paused_at = coalesce(task.paused_at, moment), paused_by = by, paused_why = why,
          limit_id = coalesce(task.limit_id, 2::smallint),
          unmoved_since = case when task.limit_id is null then pg_current_xact_id() else task.unmoved_since end
        where task.identifier = name;
    end if;
  elsif partition_id is not null then
    insert into asyncq._partitions as held (id, key, paused_at, paused_by, paused_why)
      values (partition_id, coalesce(key, name), moment, by, why)
      on conflict (id) do update
        set key = excluded.key, paused_by = excluded.paused_by, paused_why = excluded.paused_why,
          paused_at = case when moment is not null then coalesce(held.paused_at, moment) end;
    if moment is null then
      insert into asyncq._wakeups (at, partition, task_id, priority)
        select head.run_at, partition_id, head.task_id, head.priority from asyncq._heads(partition_id) as head;
    end if;
  else
    update asyncq._limits as held
      set paused_at = case when moment is not null then coalesce(held.paused_at, moment) end,
        paused_by = by, paused_why = why
      where held.id = limit_id;
  end if;
end
$$;

-- The id of the limit of this name, which is stored if it is new. 54000: there are 32,000 limits already.
create or replace function asyncq._limit_id(name text) returns smallint
  language plpgsql volatile
  as $$
#variable_conflict use_variable
declare
  found_id smallint := (select held.id from asyncq._limits as held where held.name = name);
begin
  if found_id is null then
    -- The next number is free until the commit. Fetches read the table meanwhile.
    lock table asyncq._limits in share row exclusive mode;
    if (select max(held.id) from asyncq._limits as held) >= 32000 then
      raise exception using errcode = '54000', column = 'name',
        message = 'limit ' || name || ' cannot be added: there are 32000 limits already';
    end if;
    insert into asyncq._limits as held (id, name) select max(other.id) + 1, name from asyncq._limits as other
      on conflict on constraint limits_name_key do update set name = excluded.name
      returning held.id into found_id;
  end if;
  return found_id;
end
$$;

-- Notify all workers at commit. They return jobs that they have not started, or fetch.
create or replace function asyncq._tell_pause(act text, what text, name text, key text, by text, why text) returns void
  language sql volatile
  as $$
  select pg_catalog.pg_notify('asyncq:jobs', pg_catalog.json_build_object(
    'act', act, 'what', what, 'name', name, 'key', pg_catalog.left(key, 128), 'by', by, 'reason', why)::text)
  $$;
