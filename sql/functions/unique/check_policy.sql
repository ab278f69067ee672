-- The unique policy of an add, checked, with every default filled in; null for none. asyncq/domain/unique.py has the
-- same rules. A member that is null is as one that is missing. The error's column is the member that breaks a rule.

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
