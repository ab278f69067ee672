-- Check a recurring item as far as SQL can: workers read the expression, and know the task. A definition has the
-- required members task and expression, an object payload, and the options of add_cron_item.
-- Backslashes are written in E'' strings, as in _check_jobs.
create or replace function asyncq._check_cron_item(item text, definition jsonb) returns void
  language plpgsql stable
  as $$
declare
  members constant jsonb := '{"task": "string", "expression": "string", "payload": "object", "dialect": "string", "tz": "string",
    "fill": "number", "overlap": "string", "queue": "string", "max_attempts": "number", "priority": "number",
    "flags": "array", "job_key": "string", "job_key_mode": "string"}';
  unknown text;
  field text;
  fault text;
begin
  select case when members ? member.key then member.key else '-' || member.key end into unknown
    from jsonb_each(definition) as member
    where not members ? member.key or jsonb_typeof(member.value) <> members ->> member.key
      and not (member.key = 'fill' and jsonb_typeof(member.value) = 'string')
    order by member.key collate "C" limit 1;
  select split_part(broken.rule, ' ', 1), broken.rule into field, fault
  from (select case
    when item is null then 'identifier must not be null'
    when length(item) not between 1 and 128
      then 'identifier is ' || length(item) || ' characters long, expected 1 to 128'
    when item ~ '[[:cntrl:]]' then 'identifier holds a control character'
    when unknown like '-%' then 'options have no member ''' || substr(unknown, 2) || '''; there are payload, dialect, tz, fill, '
      'overlap, queue, max_attempts, priority, flags, job_key, job_key_mode'
    when unknown is not null
      then unknown || ' must be of the JSON type ' || (members ->> unknown) || ', got ' || jsonb_typeof(definition -> unknown)
    when definition ->> 'task' is null or definition ->> 'task' = '' then 'task is missing'
    when definition ->> 'task' ~ '[[:cntrl:]]' then 'task holds a control character'
    when definition ->> 'expression' is null then 'expression is missing'
    when definition ->> 'expression' !~ E'^\\s*(@\\w+|\\S+(\\s+\\S+){4})\\s*$'
      then 'expression is ''' || left(definition ->> 'expression', 60) || ''', expected five fields, or a word such as @daily'
    when definition ->> 'dialect' not in ('extended', 'crontab')
      then 'dialect is ''' || left(definition ->> 'dialect', 60) || ''', expected extended or crontab'
    when definition ->> 'overlap' not in ('allow', 'skip', 'replace')
      then 'overlap is ''' || left(definition ->> 'overlap', 60) || ''', expected allow, skip, replace'
    when definition ->> 'overlap' <> 'allow' and definition ? 'job_key'
      then 'overlap ''' || (definition ->> 'overlap') || ''' goes without job_key: both say what becomes of a job beside another one'
    when jsonb_typeof(definition -> 'fill') = 'string' and definition ->> 'fill' !~ '^([0-9]{1,12}[smhdw])+$'
      then 'fill is ''' || left(definition ->> 'fill', 60) || ''', expected seconds, or a text such as 3d12h'
    when jsonb_typeof(definition -> 'fill') = 'number' and (definition ->> 'fill')::numeric not between 0 and 3155760000
      then 'fill is ' || left(definition ->> 'fill', 60) || ', expected seconds from 0 to 36525 days'
    when (definition ->> 'max_attempts')::numeric not between 1 and 32767 or (definition ->> 'max_attempts')::numeric % 1 <> 0
      then 'max_attempts is ' || left(definition ->> 'max_attempts', 60) || ', expected 1 to 32767'
    when (definition ->> 'priority')::numeric not between -32768 and 32767 or (definition ->> 'priority')::numeric % 1 <> 0
      then 'priority is ' || left(definition ->> 'priority', 60) || ', expected -32768 to 32767'
    when exists (select from jsonb_array_elements(definition -> 'flags') as flag where jsonb_typeof(flag) <> 'string')
      then 'flags must be an array of texts'
    -- A list of all items is read as one value, and a reader may refuse deeper nesting.
    when jsonb_path_exists(definition, '$.payload.**{500}') then 'payload is nested more than 500 levels deep'
  end) as broken(rule);
  if fault is not null then
    raise exception using errcode = '22023', column = field, message = fault;
  end if;
  perform asyncq._check_jobs(array[asyncq._new_job(
    definition ->> 'task', (definition -> 'payload')::json, definition ->> 'queue', null, null,
    job_key => definition ->> 'job_key', job_key_mode => definition ->> 'job_key_mode')]);
  if definition ? 'tz' then
    begin
      perform asyncq.now() at time zone (definition ->> 'tz');
    exception when invalid_parameter_value then
      raise exception using errcode = '22023', column = 'tz',
        message = 'tz is ''' || left(definition ->> 'tz', 60) || ''', expected an IANA name such as Europe/Berlin';
    end;
  end if;
end
$$;

-- A definition with changed members: null ones are left out, so that they have their default.
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
