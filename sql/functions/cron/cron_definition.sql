-- A definition with other members in it: those that are null are left out, so that they have their default.

create or replace function asyncq._cron_definition(definition jsonb, changes jsonb) returns jsonb
  language plpgsql immutable
  as $$
begin
  if jsonb_typeof(changes) <> 'object' then
    raise exception using errcode = '22023', column = 'options', message = 'options must be an object, got ' || jsonb_typeof(changes);
  end if;
  return (
    select coalesce(jsonb_object_agg(member.key, member.value), '{}')
    from jsonb_each(definition || coalesce(changes, '{}')) as member where member.value <> 'null');
end
$$;
