-- Jobs as JSON: an array of objects whose members are the arguments of add_job, each of its type or null.

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
  -- Here, as no text in it could be read otherwise.
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
  perform asyncq._check_options((given.job ->> 'options')::jsonb) from json_array_elements(jobs) as given(job);
end
$$;
