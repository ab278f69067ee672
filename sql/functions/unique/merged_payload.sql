-- Two arrays are joined, the old one first; in every other case the new payload replaces the old.

create or replace function asyncq._merged_payload(old json, new json) returns json
  language plpgsql immutable parallel safe
  as $$
declare
  joined json;
begin
  if json_typeof(old) is distinct from 'array' or json_typeof(new) is distinct from 'array' then
    return new;
  end if;
  joined := old::jsonb || new::jsonb;
  if octet_length(joined::text) > 16777216 then
    raise exception using errcode = 'GWBPL', column = 'payload',
      message = 'payload is ' || octet_length(joined::text) || ' bytes of JSON once it is merged, at most 16777216 are allowed';
  end if;
  return joined;
end
$$;
