-- A member of a unique policy that is a list: strings, each one once, in form NFC. allowed are the only ones there are.

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
