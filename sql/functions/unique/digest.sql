-- What a request asks for, as one number: its task and its payload. jsonb makes payloads equal that differ in blanks or in the
-- order of their members; what jsonb cannot hold counts as it is written.

create or replace function asyncq._digest(identifier text, payload json) returns bytea
  language plpgsql immutable
  as $$
begin
  return sha256(convert_to(to_json(identifier) || coalesce(payload, '{}')::jsonb::text, 'UTF8'));
exception when data_exception then
  return sha256(convert_to(to_json(identifier) || payload::text, 'UTF8'));
end
$$;
