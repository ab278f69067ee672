-- The unique policy of an add, checked, with every default filled in; null for none. asyncq/domain/unique.py has the
-- same rules. A null member counts as missing. The error's column is the member that breaks a rule.
create or replace function asyncq._check_policy(policy jsonb) returns jsonb
  language plpgsql immutable
  as $$
declare
  checked jsonb := '{"keys": ["type"], "args_keys": null, "meta_keys": null, "period": null, "on_conflict": "reject",
    "states": ["available", "active", "scheduled", "retryable", "pending"]}';
  given jsonb;
  member text;
  unknown text;
begin
  if policy is null or policy = 'null' then
    return null;
  elsif jsonb_typeof(policy) <> 'object' then
    raise exception using errcode = 'GWBUP', column = 'unique',
      message = 'unique must be an object, got ' || jsonb_typeof(policy);
  end if;
  select name into unknown from jsonb_object_keys(policy) as name where not checked ? name
    order by name collate "C" limit 1;
  if found then
    raise exception using errcode = 'GWBUP', column = 'unique', message = 'unique has no member ''' || unknown || '''; '
      'there are keys, args_keys, meta_keys, period, states, on_conflict';
  end if;
  given := jsonb_strip_nulls(policy);
  checked := checked || given;
  foreach member in array array['keys', 'args_keys', 'meta_keys', 'states'] loop
    if given ? member then
      checked := jsonb_set(checked, array[member], asyncq._check_names(member, given -> member, case member
        when 'keys' then '{type,queue,args,meta}'
        when 'states' then '{scheduled,available,active,retryable,pending,completed,cancelled,discarded}'::text[]
      end));
    end if;
  end loop;
  perform asyncq._period(checked ->> 'period');
  if checked -> 'on_conflict' not in ('"reject"', '"replace"', '"replace_except_schedule"', '"ignore"') then
    raise exception using errcode = 'GWBUP', column = 'unique.on_conflict',
      message = 'unique.on_conflict is ' || left((checked -> 'on_conflict')::text, 60)
        || ', expected one of ''reject'', ''replace'', ''replace_except_schedule'', ''ignore''';
  elsif checked -> 'keys' ? 'meta' and checked -> 'meta_keys' in ('null', '[]') then
    raise exception using errcode = 'GWBUP', column = 'unique.meta_keys',
      message = 'unique.meta_keys is missing or empty, but keys holds ''meta'': name the members of meta that count';
  end if;
  return checked;
end
$$;

-- Check a member of a unique policy that is a list of strings, each one once. allowed: the valid strings; null: any.
-- Returns the strings in form NFC.
create or replace function asyncq._check_names(member text, given jsonb, allowed text[] default null) returns jsonb
  language plpgsql immutable
  as $$
declare
  fault text;
  names text[];
begin
  if jsonb_typeof(given) <> 'array' then
    fault := 'must be a list of strings, got ' || left(given::text, 60);
  else
    select case
      when jsonb_typeof(item) <> 'string' then 'must be a list of strings, got ' || left(item::text, 60) || ' in it'
      when item #>> '{}' <> all(allowed)
        then 'holds ''' || left(item #>> '{}', 60) || ''', expected one of '''
          || array_to_string(allowed, ''', ''') || ''''
      when item = '""' then 'holds an empty string'
    end into fault
    from jsonb_array_elements(given) with ordinality as element(item, ord)
    where jsonb_typeof(item) <> 'string' or item #>> '{}' <> all(allowed) or item = '""'
    order by ord limit 1;
  end if;
  if fault is null then
    names := array(
      select asyncq._nfc(name) from jsonb_array_elements_text(given) with ordinality as element(name, ord)
      order by ord);
    if cardinality(names) > (select count(distinct name collate "C") from unnest(names) as name) then
      fault := 'holds the same string twice';
    end if;
  end if;
  if fault is not null then
    raise exception using errcode = 'GWBUP', column = 'unique.' || member,
      message = 'unique.' || member || ' ' || fault;
  end if;
  return to_jsonb(names);
end
$$;

-- The period of a unique policy, an ISO 8601 duration such as PT1H or P3W4DT5H6M7.5S. A pattern checks it first, since
-- PostgreSQL also accepts P-1D and PT. Anything below a microsecond is cut off. Add it to a time in UTC: ((created_at
-- at time zone 'UTC') + period) at time zone 'UTC'. A day of a session's zone may have 23 hours.
create or replace function asyncq._period(period text) returns interval
  language plpgsql immutable strict
  as $$
declare
  part text[];
  number bigint[];
begin
  part := regexp_match(period, '^P(?:([0-9]{1,10})Y)?(?:([0-9]{1,10})M)?(?:([0-9]{1,10})W)?(?:([0-9]{1,10})D)?'
    '(?:T(?:([0-9]{1,10})H)?(?:([0-9]{1,10})M)?(?:([0-9]{1,10})(?:[.]([0-9]{1,9}))?S)?)?$');
  if part is null or right(period, 1) in ('P', 'T') then
    raise exception using errcode = 'GWBUP', column = 'unique.period',
      message = 'unique.period ''' || left(period, 40) || ''' is not an ISO 8601 duration, such as ''PT1H'' or ''P7D''';
  end if;
  number := array(
    select coalesce(text, '0')::bigint from unnest(part[1:7]) with ordinality as given(text, ord) order by ord)
    || rpad(coalesce(part[8], ''), 6, '0')::bigint;
  -- Years and months count as 366 and 30.5 days here.
  if (number[1] * 12 + number[2]) * 30.5 + number[3] * 7 + number[4]
    + (number[5] * 3600 + number[6] * 60 + number[7] + number[8] / 1000000.0) / 86400 > 36600 then
    raise exception using errcode = 'GWBUP', column = 'unique.period',
      message = 'unique.period ''' || period || ''' is longer than 36600 days; leave it out for no end';
  end if;
  return make_interval(
    months => (number[1] * 12 + number[2])::int, days => (number[3] * 7 + number[4])::int, hours => number[5]::int,
    mins => number[6]::int, secs => number[7] + number[8] / 1000000.0);
end
$$;
