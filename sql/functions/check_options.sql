-- The options of an add: an object whose members are known. What _dedupe makes something of, it checks.

create or replace function asyncq._check_options(options jsonb) returns void
  language plpgsql immutable
  as $$
declare
  unknown text;
begin
  if options is null then
    return;
  end if;
  if jsonb_typeof(options) <> 'object' then
    raise exception using errcode = '22023', column = 'options',
      message = 'options must be an object, got ' || jsonb_typeof(options);
  end if;
  select member into unknown from jsonb_object_keys(options) as member
    where member not in ('meta', 'unique', 'singleton', 'subject', 'force', 'rerun', 'idempotency_key', 'idempotency_window_s')
    order by member limit 1;
  if unknown is not null then
    raise exception using errcode = '22023', column = 'options', message = 'options: ''' || unknown || ''' is unknown; '
      'there are meta, unique, singleton, subject, force, rerun, idempotency_key, idempotency_window_s';
  elsif jsonb_typeof(options -> 'meta') <> 'object' then
    raise exception using errcode = '22023', column = 'options',
      message = 'options: meta must be an object, got ' || jsonb_typeof(options -> 'meta');
  end if;
end
$$;
