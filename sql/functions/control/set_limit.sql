-- Set values of a limit, or of a queue that has a limit, in place of those that workers declare. They hold until they
-- are unset, whatever is deployed meanwhile. A null leaves a value as it is; unlimited names values that are to have
-- no limit. Of a limit without a key, at_once and rate are totals. by is the role of the session by default. Returns
-- the row of the view limits.
create or replace function asyncq.set_limit(
  name text, at_once int default null, rate int default null, per_s float8 default null, total int default null,
  total_rate int default null, total_per_s float8 default null, fair boolean default null, unlimited text[] default null,
  by text default null) returns asyncq.limits
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  given jsonb := jsonb_strip_nulls(jsonb_build_object(
    'at_once', at_once, 'rate', rate, 'per_s', per_s, 'total', total, 'total_rate', total_rate, 'total_per_s', total_per_s, 'fair', fair));
begin
  perform asyncq._check_values(given, unlimited, by);
  given := given || coalesce((
    select jsonb_object_agg(lifted.member, null)
    from unnest(unlimited) as named(value)
    cross join lateral unnest(case named.value
      when 'rate' then '{rate,per_s}' when 'total_rate' then '{total_rate,total_per_s}' else array[named.value] end) as lifted(member)), '{}');
  return asyncq._override_limit(set_limit.name, given, by);
end
$$;

-- Undo what set_limit has set, or with a key what set_partition has set for it. Returns the row of the view limits.
create or replace function asyncq.unset_limit(name text, key text default null) returns asyncq.limits
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  answer asyncq.limits;
begin
  if key is null then
    return asyncq._override_limit(unset_limit.name, null, null);
  end if;
  perform asyncq._override_partition(unset_limit.name, key, null, null);
  select limits.* into answer from asyncq.limits as limits where limits.name = unset_limit.name;
  return answer;
end
$$;

-- Check values that were given by hand. The message has the name of the value.
create or replace function asyncq._check_values(given jsonb, unlimited text[], by text) returns void
  language plpgsql immutable
  as $$
declare
  fault record;
begin
  if by = '' or length(by) > 128 then
    raise exception using errcode = '22023', column = 'by', message = 'by has ' || length(by) || ' characters, expected 1 to 128';
  elsif given = '{}' and coalesce(cardinality(unlimited), 0) = 0 then
    raise exception using errcode = '22023', column = 'at_once', message = 'there is nothing to set: give a value';
  end if;
  select known.field, given ->> known.field as value, known.least, known.most into fault
    from (values
        ('at_once', 1, 32767), ('total', 1, 32767), ('rate', 1, 100000), ('total_rate', 1, 100000),
        ('per_s', 0.1, 86400), ('total_per_s', 0.1, 86400), ('weight', 0.01, 100)) as known(field, least, most)
    where not (given ->> known.field)::float8 between known.least and known.most limit 1;
  if found then
    raise exception using errcode = '22023', column = fault.field,
      message = fault.field || ' must lie between ' || fault.least || ' and ' || fault.most || ', got ' || fault.value
        || case when fault.value = '0' and fault.field not in ('per_s', 'total_per_s', 'weight') then '; to start no jobs, pause it instead' else '' end;
  end if;
  select pair.one, pair.other into fault
    from (values ('rate', 'per_s'), ('total_rate', 'total_per_s')) as pair(one, other)
    where given ? pair.one <> given ? pair.other limit 1;
  if found then
    raise exception using errcode = '22023', column = fault.one,
      message = fault.one || ' and ' || fault.other || ' belong together: so many starts in so many seconds';
  end if;
  select named.value into fault from unnest(unlimited) as named(value)
    where named.value is null or named.value not in ('at_once', 'rate', 'total', 'total_rate') or given ? named.value limit 1;
  if found then
    raise exception using errcode = '22023', column = 'unlimited',
      message = 'unlimited names ' || coalesce(fault.value, 'null') || ', expected one of at_once, rate, total, total_rate that is not set too';
  end if;
end
$$;

-- Store what was set by hand for a limit or queue, in addition to what was set before; null unsets all of it.
create or replace function asyncq._override_limit(name text, given jsonb, by text) returns asyncq.limits
  language plpgsql volatile
  as $$
declare
  held asyncq._limits;
  queue asyncq._partitions;
  wrong text;
  answer asyncq.limits;
begin
  select limits.* into held from asyncq._limits as limits where limits.name = _override_limit.name for update;
  if found then
    if given is not null then
      held.overrides := coalesce(held.overrides, '{}') || asyncq._of_all_keys(held.id, given);
    else
      held.overrides := null;
    end if;
    held.set_by := case when given is not null then coalesce(by, session_user) end;
    held.set_at := case when given is not null then asyncq.clock() end;
    perform asyncq._store_limit(held);
  else
    select partition.* into queue from asyncq._partitions as partition
      where partition.id = asyncq._partition(1::smallint, name) and (partition.declared is not null or partition.overrides is not null)
      for no key update;
    if not found then
      raise exception using errcode = '22023', column = 'name',
        message = 'no worker has declared a limit ' || name || coalesce('; there are ' || (
          select string_agg(known.name, ', ') from (
            select limits.name from asyncq.limits as limits order by limits.name limit 10) as known), '');
    end if;
    select member into wrong from jsonb_each(given) as set(member, value)
      where member not in ('at_once', 'rate', 'per_s') or member = 'at_once' and value = 'null' limit 1;
    if found then
      raise exception using errcode = '22023', column = wrong,
        message = 'a queue has a number of jobs at once, and a rate: ' || wrong || ' of queue ' || name || ' cannot be set so';
    end if;
    queue.overrides := case when given is not null then coalesce(queue.overrides, '{}') || given end;
    queue.set_by := case when given is not null then coalesce(by, session_user) end;
    queue.set_at := case when given is not null then asyncq.clock() end;
    perform asyncq._store_partition(queue);
  end if;
  select limits.* into answer from asyncq.limits as limits where limits.name = _override_limit.name;
  return answer;
end
$$;

-- The same values as totals, if no task has a key for the limit.
create or replace function asyncq._of_all_keys(limit_id smallint, given jsonb) returns jsonb
  language plpgsql stable
  as $$
declare
  totals jsonb;
begin
  if exists (select from asyncq._tasks as task where task.limit_id = _of_all_keys.limit_id and task.by is not null) then
    return given;
  end if;
  select coalesce(jsonb_object_agg(
      case set.member when 'at_once' then 'total' when 'rate' then 'total_rate' when 'per_s' then 'total_per_s' else set.member end, set.value), '{}')
    into totals from jsonb_each(given) as set(member, value);
  if (select count(*) from jsonb_object_keys(totals)) < (select count(*) from jsonb_object_keys(given)) then
    raise exception using errcode = '22023', column = 'total',
      message = 'the limit has no key: at_once and total, or rate and total_rate, are the same, so give one of them';
  end if;
  return totals;
end
$$;
