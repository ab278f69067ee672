-- Add jobs with the rights of the schema's owner. A role that only adds jobs needs no other right.
-- jobs is an object, or an array of objects, whose members are the arguments of add_job. A missing or null member is
-- the default, but a null payload is a payload. The argument list never changes, since a new option is a new member:
-- the right to call this outlives every upgrade. Of a job that existed before, only the id and state are returned.
create or replace function asyncq.enqueue(jobs json)
  returns table (ord bigint, outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  listed constant json := case json_typeof(jobs) when 'object' then json_build_array(jobs) else jobs end;
begin
  perform asyncq._check_members(listed);
  return query
    select added.ord, added.outcome, added.id, added.existing_id, added.existing_state
    from asyncq._add_jobs(array(
      select asyncq._new_job(
        spec.identifier, spec.job -> 'payload', spec.queue_name, spec.run_at,
        asyncq._extra(spec.options, spec.identifier, spec.queue_name, spec.job -> 'payload', spec.job_key), spec.max_attempts,
        spec.job_key, spec.priority, asyncq._flags(spec.flags), spec.job_key_mode)
      from rows from (
        json_array_elements(listed),
        json_to_recordset(listed) as (
          identifier text, queue_name text, run_at timestamptz, max_attempts int, job_key text, priority int,
          flags text[], job_key_mode text, options jsonb))
        with ordinality as spec(
          job, identifier, queue_name, run_at, max_attempts, job_key, priority, flags, job_key_mode, options, ord)
      order by spec.ord)) as added;
end
$$;

-- Check jobs as JSON: an array of objects whose members are the arguments of add_job, each of its type or null.
create or replace function asyncq._check_members(jobs json) returns void
  language plpgsql immutable
  as $$
declare
  bad record;
begin
  if jobs is null or json_typeof(jobs) <> 'array' then
    raise exception using errcode = '22023', column = 'jobs',
      message = 'jobs must be an object or an array of objects, got ' || coalesce(json_typeof(jobs), 'null');
  end if;
  -- First, since no text that contains it can be read.
  if strpos(jobs::text, E'\\u0000') > 0 and jobs::text ~ E'(^|[^\\\\])(\\\\\\\\)*\\\\u0000' then
    raise exception using errcode = 'GWBPL', column = 'payload',
      message = E'a job holds \\u0000, which PostgreSQL cannot store as text';
  end if;
  select given.ord, 'jobs' as name, 'each job must be an object, got ' || json_typeof(given.job) as said into bad
    from json_array_elements(jobs) with ordinality as given(job, ord)
    where json_typeof(given.job) <> 'object'
    order by given.ord limit 1;
  if not found then
    select given.ord, member.name, case
        when known.name is null then 'a job has no member ''' || left(member.name, 60) || ''''
        else member.name || ' must be ' || known.kind || ', got ' || json_typeof(member.value)
      end as said
      into bad
      from json_array_elements(jobs) with ordinality as given(job, ord)
      cross join lateral json_each(given.job) as member(name, value)
      left join (values
        ('identifier', 'string'), ('payload', null), ('queue_name', 'string'), ('run_at', 'string'),
        ('max_attempts', 'number'), ('job_key', 'string'), ('priority', 'number'), ('flags', 'array'),
        ('job_key_mode', 'string'), ('options', 'object')) as known(name, kind) on known.name = member.name
      where known.name is null or json_typeof(member.value) not in (known.kind, 'null')
      order by given.ord limit 1;
  end if;
  if found then
    raise exception using errcode = '22023', column = bad.name, message = bad.said,
      detail = 'Job ' || bad.ord || ' of ' || json_array_length(jobs) || '.';
  end if;
end
$$;
