-- The options of an add: an object whose members are known. What _extra makes something of, it checks.
-- Who lists jobs reads their meta: one that is nested deeper, or holds a larger number, a reader may refuse.
create or replace function asyncq._check_options(options jsonb) returns void
  language plpgsql immutable
  as $$
declare
  unknown text;
  size int;
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
    order by member collate "C" limit 1;
  if unknown is not null then
    raise exception using errcode = '22023', column = 'options', message = 'options: ''' || unknown || ''' is unknown; '
      'there are meta, unique, singleton, subject, force, rerun, idempotency_key, idempotency_window_s';
  elsif jsonb_typeof(options -> 'meta') <> 'object' then
    raise exception using errcode = '22023', column = 'options',
      message = 'options: meta must be an object, got ' || jsonb_typeof(options -> 'meta');
  elsif options ? 'meta' then
    size := octet_length((options -> 'meta')::text);
    if size > 16777216 then
      raise exception using errcode = '22023', column = 'options',
        message = 'options: meta is ' || size || ' bytes of JSON, at most 16777216 are allowed';
    -- Shorter ones have no room for either.
    elsif size >= 309 and jsonb_path_exists(options, '$.meta.**{500}') then
      raise exception using errcode = '22023', column = 'options',
        message = 'options: meta is nested more than 500 levels deep';
    elsif size >= 309 and jsonb_path_exists(
      options, 'strict $.meta.** ? (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308)')
    then
      raise exception using errcode = '22023', column = 'options',
        message = 'options: meta holds a number beyond 1.8e308, which cannot be read';
    end if;
  end if;
end
$$;
