-- The limits of a job, each with graphile's error code. The error names the first spec that breaks a rule.
-- run_at has limits: a Python worker cannot hold a time outside of the years 1 to 9999, and infinity has no distance
-- from now. Backslashes are written in E'' strings: the caller may have switched standard_conforming_strings off.
create or replace function asyncq._check_jobs(
  identifiers text[], payloads json[], queue_names text[], run_ats timestamptz[], max_attempts int[], job_keys text[],
  priorities int[], job_key_modes text[]) returns void
  language plpgsql stable
  as $$
declare
  bad record;
begin
  -- Nearly always all is well, which is cheaper to see column by column: those that are null are not looked at, and of
  -- one task's jobs one name.
  if (
    1 > any(max_attempts) or 32767 < any(max_attempts)
    or -32768 > any(priorities) or 32767 < any(priorities)
    or exists (
      select from unnest(
        case when array_remove(identifiers, identifiers[1]) = '{}' then identifiers[1:1] else identifiers end) as name
      where name is null or length(name) > 128)
    or exists (
      select from unnest(payloads) as payload
      where pg_column_size(payload) > 16777216 + 4
        or strpos(payload::text, E'\\u') > 0 and payload::text ~ E'\\\\u(0000|[dD][89a-fA-F])')
    or exists (select from unnest(queue_names) as name where length(name) > 128 or name = 'default')
    or exists (select from unnest(job_keys) as key where length(key) not between 1 and 512)
    or exists (
      select from unnest(run_ats) as run_at where run_at < '0001-01-01 00:00:00+00' or run_at >= '10000-01-01 00:00:00+00')
    or exists (
      select from unnest(job_key_modes) as mode where mode not in ('replace', 'preserve_run_at', 'unsafe_dedupe'))) is not true
  then
    return;
  end if;
  select spec.ord, fault.code, fault.field, fault.said into bad
  from unnest(identifiers, payloads, queue_names, run_ats, max_attempts, job_keys, priorities, job_key_modes)
    with ordinality as spec(identifier, payload, queue_name, run_at, max_attempts, job_key, priority, job_key_mode, ord)
  cross join lateral (select case
    when spec.identifier is null then 'GWBID identifier must not be null'
    when length(spec.identifier) > 128
      then 'GWBID identifier is ' || length(spec.identifier) || ' characters long, at most 128 are allowed'
    when length(spec.queue_name) > 128
      then 'GWBQN queue_name is ' || length(spec.queue_name) || ' characters long, at most 128 are allowed'
    when spec.queue_name = 'default'
      then 'GWBQN queue_name ''default'' is reserved for jobs without a queue'
    when spec.job_key = '' then 'GWBJK job_key is empty, at least 1 character is needed'
    when length(spec.job_key) > 512
      then 'GWBJK job_key is ' || length(spec.job_key) || ' characters long, at most 512 are allowed'
    when spec.max_attempts < 1 then 'GWBMA max_attempts is ' || spec.max_attempts || ', at least 1 is needed'
    when spec.max_attempts > 32767
      then 'GWBMA max_attempts is ' || spec.max_attempts || ', at most 32767 is allowed'
    when spec.job_key_mode not in ('replace', 'preserve_run_at', 'unsafe_dedupe')
      then 'GWBKM job_key_mode ''' || spec.job_key_mode
        || ''' is unknown, expected ''replace'', ''preserve_run_at'' or ''unsafe_dedupe'''
    when spec.priority not between -32768 and 32767
      then '22003 priority is ' || spec.priority || ', expected -32768 to 32767'
    when spec.run_at < '0001-01-01 00:00:00+00' or spec.run_at >= '10000-01-01 00:00:00+00'
      then '22008 run_at is ' || (to_json(spec.run_at at time zone 'UTC') #>> '{}') || ', expected a year from 1 to 9999'
    -- With the header of a value in memory.
    when pg_column_size(spec.payload) > 16777216 + 4
      then 'GWBPL payload is ' || octet_length(spec.payload::text) || ' bytes of JSON, at most 16777216 are allowed'
    when strpos(spec.payload::text, E'\\u0000') > 0
      and spec.payload::text ~ E'(^|[^\\\\])(\\\\\\\\)*\\\\u0000'
      then E'GWBPL payload holds \\u0000, which PostgreSQL cannot store as text'
    -- Less escaped backslashes and whole pairs, as in _check_escapes. No worker could read it, and no other array be
    -- joined to it.
    when strpos(spec.payload::text, E'\\u') > 0
      and regexp_replace(
        replace(spec.payload::text, E'\\\\', '..'),
        E'\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}', '..', 'g') ~ E'\\\\u[dD][89a-fA-F]'
      then 'GWBPL payload holds half of a surrogate pair, which is no character'
  end) as broken(rule)
  cross join lateral (select
    split_part(broken.rule, ' ', 1), split_part(broken.rule, ' ', 2), substr(broken.rule, 7)
  ) as fault(code, field, said)
  where broken.rule is not null
  order by spec.ord limit 1;
  if found then
    raise exception using errcode = bad.code, column = bad.field, message = bad.said,
      detail = 'Job ' || bad.ord || ' of ' || cardinality(identifiers) || '.';
  end if;
end
$$;
