-- Two arrays are joined, the old one first; in every other case the new payload replaces the old.

create or replace function asyncq._merged_payload(old json, new json) returns json
  language sql immutable parallel safe
  as $$
  select case
    when json_typeof(old) = 'array' and json_typeof(new) = 'array' then (old::jsonb || new::jsonb)::json
    else new
  end
  $$;
