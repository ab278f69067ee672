-- Check that the options of an add are an object of known members. _extra checks those that it reads. meta has limits,
-- since a reader of jobs may refuse deeper nesting or larger numbers.
create or replace function asyncq._check_options(options jsonb) returns void
  language plpgsql immutable strict
  as $$
declare
  unknown constant text := (
    select min(member collate "C") from jsonb_object_keys(case jsonb_typeof(options) when 'object' then options end) as member
    where member not in ('meta', 'unique', 'singleton', 'subject', 'force', 'rerun', 'idempotency_key', 'idempotency_window_s'));
  size constant int := coalesce(octet_length((options -> 'meta')::text), 0);
  fault text;
begin
  fault := case
    when jsonb_typeof(options) <> 'object' then 'options must be an object, got ' || jsonb_typeof(options)
    when unknown is not null then 'options: ''' || unknown || ''' is unknown; '
      'there are meta, unique, singleton, subject, force, rerun, idempotency_key, idempotency_window_s'
    when jsonb_typeof(options -> 'meta') <> 'object'
      then 'options: meta must be an object, got ' || jsonb_typeof(options -> 'meta')
    when size > 16777216 then 'options: meta is ' || size || ' bytes of JSON, at most 16777216 are allowed'
    -- Shorter ones have no room for either.
    when size >= 309 and jsonb_path_exists(options, '$.meta.**{500}') then 'options: meta is nested more than 500 levels deep'
    when size >= 309 and jsonb_path_exists(
        options, 'strict $.meta.** ? (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308)')
      then 'options: meta holds a number beyond 1.8e308, which cannot be read'
  end;
  if fault is not null then
    raise exception using errcode = '22023', column = 'options', message = fault;
  end if;
end
$$;
