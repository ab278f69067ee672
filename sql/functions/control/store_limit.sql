-- Store what was declared for a limit, or set by hand: declared, overrides, and by whom. The values that fetches read
-- follow from both. The caller has locked the row. If more jobs may start now, their partitions are woken.
create or replace function asyncq._store_limit(given asyncq._limits) returns void
  language plpgsql volatile
  as $$
declare
  was asyncq._limits;
  now_valid asyncq._limits := jsonb_populate_record(
    given, asyncq._no_limit() || coalesce(given.declared, '{}') || coalesce(given.overrides, '{}'));
begin
  select held.* into was from asyncq._limits as held where held.id = given.id;
  update asyncq._limits as held
    set declared = given.declared, overrides = given.overrides, declared_at = given.declared_at, declared_by = given.declared_by,
      set_at = given.set_at, set_by = given.set_by, changed_at = asyncq.clock(), at_once = now_valid.at_once, rate = now_valid.rate, per_s = now_valid.per_s,
      total = now_valid.total, total_rate = now_valid.total_rate, total_per_s = now_valid.total_per_s, fair = now_valid.fair
    where held.id = given.id;
  if now_valid.per_s is distinct from was.per_s then
    perform asyncq._gather_starts(array(
      select held.id from asyncq._partitions as held
      where held.id >= given.id::bigint << 48 and held.id < asyncq._gate(given.id) and held.per_s is null
      order by held.id for no key update), now_valid.per_s);
  end if;
  if now_valid.total_per_s is distinct from was.total_per_s then
    perform asyncq._gather_starts(array[asyncq._gate(given.id)], now_valid.total_per_s);
  end if;
  perform asyncq._store_gate(given.id);
  if asyncq._is_raised(was, now_valid) then
    perform asyncq._wake_limit(given.id);
  end if;
end
$$;

-- The values of a limit that limits nothing.
create or replace function asyncq._no_limit() returns jsonb
  language sql immutable parallel safe
  as $$
  select '{"at_once": null, "rate": null, "per_s": null, "total": null, "total_rate": null, "total_per_s": null, "fair": false}'::jsonb
  $$;

-- Whether more jobs may start under the new values of a limit. A rate that has changed may be one of them.
create or replace function asyncq._is_raised(was asyncq._limits, now_valid asyncq._limits) returns boolean
  language sql immutable parallel safe
  as $$
  select coalesce(now_valid.at_once, 2147483647) > coalesce(was.at_once, 2147483647)
    or coalesce(now_valid.total, 2147483647) > coalesce(was.total, 2147483647)
    or (now_valid.rate, now_valid.per_s, now_valid.total_rate, now_valid.total_per_s)
      is distinct from (was.rate, was.per_s, was.total_rate, was.total_per_s)
  $$;

-- Let the gate of a limit begin or end to count. It counts while the limit has a total. Its row stays, with the starts
-- that a rate counts.
create or replace function asyncq._store_gate(limit_id smallint) returns void
  language plpgsql volatile
  as $$
declare
  gate constant bigint := asyncq._gate(limit_id);
begin
  if exists (
      select from asyncq._limits as held
      where held.id = limit_id and (held.total is not null or held.total_rate is not null)) then
    insert into asyncq._partitions (id, recount_since) values (gate, asyncq._never()) on conflict do nothing;
  else
    update asyncq._partitions as held set recount_since = asyncq._never() where held.id = gate;
    delete from asyncq._wakeups as wakeup where wakeup.task_id = -limit_id and wakeup.partition = gate;
  end if;
end
$$;

-- Wake all partitions of a limit that have a ready job, also those that had room before. An open fetch may find one of
-- these full by the old limit, which its snapshot shows, and leave no wakeup.
create or replace function asyncq._wake_limit(limit_id smallint) returns void
  language sql volatile
  as $$
  with recursive partitions(id) as (
    (select job.partition from asyncq._jobs as job
      where job.partition >= limit_id::bigint << 48 and job.partition < (limit_id + 1)::bigint << 48 and asyncq._is_ready(job)
      order by job.partition limit 1)
    union all
    select next.id from partitions
    cross join lateral (
      select job.partition as id from asyncq._jobs as job
      where job.partition > partitions.id and job.partition < (limit_id + 1)::bigint << 48 and asyncq._is_ready(job)
      order by job.partition limit 1) as next)
  select asyncq._wake_heads(array_agg(id)) from partitions
  $$;

-- Wake partitions that may start more, for each of their tasks and priorities, and a worker.
create or replace function asyncq._wake_heads(partitions bigint[]) returns void
  language sql volatile
  as $$
  insert into asyncq._wakeups (at, partition, task_id, priority)
    select head.run_at, given.id, head.task_id, head.priority
    from unnest(partitions) as given(id) cross join lateral asyncq._heads(given.id) as head;
  select asyncq._wake_workers()
  $$;
