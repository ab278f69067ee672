-- The options of an add: an object whose members are known.

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
  select member into unknown from jsonb_object_keys(options) as member where member <> 'meta' order by member limit 1;
  if unknown in ('unique', 'singleton', 'subject', 'force', 'rerun', 'idempotency_key') then
    raise exception using errcode = '0A000', column = 'options', message = 'options: ' || unknown || ' is not supported yet';
  elsif unknown is not null then
    raise exception using errcode = '22023', column = 'options', message = 'options: ''' || unknown || ''' is unknown';
  elsif jsonb_typeof(options -> 'meta') <> 'object' then
    raise exception using errcode = '22023', column = 'options',
      message = 'options: meta must be an object, got ' || jsonb_typeof(options -> 'meta');
  end if;
end
$$;
