-- Set values of one key of a limit, in place of those of the limit, until unset_limit is called with the key. A
-- null leaves a value as it is. by is the role of the session by default.
create or replace function asyncq.set_partition(
  limit_name text, key text, at_once int default null, rate int default null, per_s float8 default null, weight float8 default null,
  by text default null) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  given constant jsonb := jsonb_strip_nulls(jsonb_build_object('at_once', at_once, 'rate', rate, 'per_s', per_s, 'weight', weight));
begin
  perform asyncq._check_values(given, null, by);
  perform asyncq._override_partition(limit_name, key, given, by);
end
$$;

-- Store what was set by hand for a key, in addition to what was set before; null unsets all of it.
create or replace function asyncq._override_partition(limit_name text, key text, given jsonb, by text) returns void
  language plpgsql volatile
  as $$
declare
  of_all asyncq._limits;
  held asyncq._partitions;
  partition_id bigint;
begin
  select limits.* into of_all from asyncq._limits as limits where limits.name = limit_name;
  if not found then
    raise exception using errcode = '22023', column = 'limit_name', message = 'no worker has declared a limit ' || limit_name;
  elsif not exists (select from asyncq._tasks as task where task.limit_id = of_all.id and task.by is not null) then
    raise exception using errcode = '22023', column = 'key', message = 'the limit ' || limit_name || ' has no key: set_limit sets it for all its jobs';
  end if;
  partition_id := asyncq._partition(of_all.id, key);
  insert into asyncq._partitions as stored (id, key) values (partition_id, key)
    on conflict (id) do update set key = excluded.key where stored.key is null;
  select partition.* into held from asyncq._partitions as partition where partition.id = partition_id for no key update;
  held.overrides := case when given is not null then coalesce(held.overrides, '{}') || given end;
  held.set_by := case when given is not null then coalesce(by, session_user) end;
  held.set_at := case when given is not null then asyncq.clock() end;
  perform asyncq._store_partition(held);
end
$$;
