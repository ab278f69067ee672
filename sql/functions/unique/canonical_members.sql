-- What counts of args or meta (path says which), as canonical JSON: the whole value when names is null, else an object
-- of the named members, which all have to be there. args may be an array around one object, as the Open Job Spec's core
-- has it.

create or replace function asyncq._canonical_members(value json, names jsonb, path text) returns text
  language plpgsql immutable
  as $$
declare
  named text[];
  held text[];
  missing text;
begin
  if names is null or names = 'null' then
    return asyncq._canonical(value, path);
  elsif names = '[]' then
    return '{}';
  end if;
  perform asyncq._check_escapes(value, path);
  if path = 'args' and json_typeof(value) = 'array' and json_array_length(value) = 1 then
    value := value -> 0;
  end if;
  named := array(select name from jsonb_array_elements_text(names) as name);
  if json_typeof(value) = 'object' then
    held := array(select asyncq._nfc(name) from json_object_keys(value) as name);
  end if;
  if (named <@ held) is not true then
    missing := (
      select name from unnest(named) with ordinality as wanted(name, ord)
      where (name = any(held)) is not true order by ord limit 1);
    raise exception using errcode = 'GWBUP', column = 'unique.' || path || '_keys',
      message = 'unique.' || path || '_keys names ''' || missing || ''', which ' || path || ' does not hold';
  end if;
  return asyncq._canonical(value, path, members => named);
end
$$;
