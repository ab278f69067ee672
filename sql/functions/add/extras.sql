-- The durations in the options of an add, as members of the record of a job's options: extras, seconds, and moments.
-- {} without any. given has all options without nulls. Source of the limits: asyncq/domain/time_limit.py. keep_s may be
-- 0: then the job is not kept.
create or replace function asyncq._extras(given jsonb) returns jsonb
  language plpgsql stable
  as $$
declare
  durations constant text[] := '{timeout_s,soft_s,expires_s,deadline_s,keep_s}';
  moments constant text[] := '{expires_at,deadline_at}';
  bad record;
begin
  if not given ?| (durations || moments || '{if_failed,takes}'::text[]) then
    return '{}';
  end if;
  select broken.name, broken.fault into bad
    from (
      select member.name, member.place, case
          when jsonb_typeof(given -> member.name) <> 'number' then member.name || ' must be a number of seconds'
          when (given ->> member.name)::numeric not between 0.000001 and 366 * 86400
              and not (member.name = 'keep_s' and (given ->> member.name)::numeric = 0)
            then member.name || ' is ' || left(given ->> member.name, 40) || ', expected more than 0, at most 31622400'
          when member.name = 'soft_s' and jsonb_typeof(given -> 'timeout_s') = 'number'
              and (given ->> 'soft_s')::numeric >= (given ->> 'timeout_s')::numeric
            then 'soft_s is ' || left(given ->> 'soft_s', 40) || ', expected less than timeout_s, '
              || left(given ->> 'timeout_s', 40)
          when given ? member.name and given ? replace(member.name, '_s', '_at')
            then member.name || ' goes without ' || replace(member.name, '_s', '_at') || ', which says the same'
        end as fault
      from unnest(durations) with ordinality as member(name, place)) as broken
    where broken.fault is not null order by broken.place limit 1;
  if found then
    raise exception using errcode = 'GWBDU', column = bad.name, message = bad.fault;
  end if;
  perform asyncq._check_moment(member.name, given -> member.name)
    from unnest(moments) as member(name) where given ? member.name;
  return jsonb_strip_nulls(jsonb_build_object(
    'extras', nullif(
      jsonb_strip_nulls(jsonb_build_object(
        'timeout_s', given -> 'timeout_s', 'soft_s', given -> 'soft_s', 'keep_s', given -> 'keep_s',
        -- Another value is refused by _after.
        'if_failed', nullif(given -> 'if_failed', '"wait"')) || asyncq._taken(given)), '{}'),
    'expires_s', given -> 'expires_s', 'expires_at', given -> 'expires_at',
    'deadline_s', given -> 'deadline_s', 'deadline_at', given -> 'deadline_at'));
end
$$;

-- Check an option that is a moment: text with a time zone, as the server reads it, in the years 1 to 9999.
create or replace function asyncq._check_moment(name text, value jsonb) returns void
  language plpgsql stable
  as $$
declare
  moment timestamptz;
begin
  if jsonb_typeof(value) <> 'string'
      or (value #>> '{}') !~* '[t ][0-9]{2}:?[0-9]{2}(:?[0-9]{2}([.][0-9]+)?)? ?(z|utc|[+-][0-9]{2}(:?[0-9]{2})?)$' then
    raise exception using errcode = '22007', column = name,
      message = name || ' must be a time with a time zone, such as 2030-01-31T04:00:00Z, got ' || left(value::text, 60);
  end if;
  begin
    moment := (value #>> '{}')::timestamptz;
  exception when datetime_field_overflow or invalid_datetime_format or invalid_parameter_value then
    raise exception using errcode = '22007', column = name,
      message = name || ' must be a time with a time zone, such as 2030-01-31T04:00:00Z, got ' || left(value::text, 60);
  end;
  if moment < '0001-01-01 00:00:00+00' or moment >= '10000-01-01 00:00:00+00' then
    raise exception using errcode = '22008', column = name, message = name || ' is outside of the years 1 to 9999 in UTC';
  end if;
end
$$;
