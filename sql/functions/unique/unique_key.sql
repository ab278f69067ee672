-- The key of a job under a unique policy: the SHA-256 of what counts of it, as canonical JSON; null without a policy.
-- policy is what _check_policy returned. args is the payload, null for {}; queue is null for a job without one. meta is
-- json like args, for the sake of its numbers; jsonb can be cast to it, as what jsonb changes is the same or refused.
-- The key is as worth protecting as the payload: it never stands in a message.

create or replace function asyncq._unique_key(policy jsonb, type text, queue text, args json, meta json) returns bytea
  language plpgsql immutable
  as $$
declare
  dimension text;
  canonical text := '';
begin
  if policy is null then
    return null;
  elsif type is null then
    raise exception using errcode = 'GWBUP', column = 'type', message = 'type must not be null';
  end if;
  -- Members of args that are named have to be there, whether args count or not.
  if policy -> 'keys' ? 'args' or jsonb_array_length(nullif(policy -> 'args_keys', 'null')) > 0 then
    dimension := asyncq._canonical_members(coalesce(args, '{}'), policy -> 'args_keys', 'args');
    if policy -> 'keys' ? 'args' then
      canonical := '"args":' || dimension || ',';
    end if;
  end if;
  if policy -> 'keys' ? 'meta' then
    dimension := asyncq._canonical_members(coalesce(meta, '{}'), policy -> 'meta_keys', 'meta');
    canonical := canonical || '"meta":' || dimension || ',';
  end if;
  if policy -> 'keys' ? 'queue' then
    canonical := canonical || '"queue":' || to_json(asyncq._nfc(coalesce(queue, 'default'))) || ',';
  end if;
  canonical := '{' || canonical || '"type":' || to_json(asyncq._nfc(type)) || '}';
  return sha256(convert_to(canonical, 'UTF8'));
end
$$;
