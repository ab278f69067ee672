-- The limits of a job, each with graphile's error code. The error names the first spec that breaks a rule.
-- run_at has limits: a Python worker cannot hold a time outside of the years 1 to 9999, and infinity has no distance
-- from now. Backslashes are written in E'' strings: the caller may have switched standard_conforming_strings off.
create or replace function asyncq._check_jobs(jobs asyncq._new_job[]) returns void
  language plpgsql stable
  as $$
declare
  bad record;
begin
  select broken.ord, broken.rule into bad
  from (
    select spec.ordinality as ord, case
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
      -- 4: the header of a value in memory.
      when pg_column_size(spec.payload) > 16777216 + 4
        then 'GWBPL payload is ' || octet_length(spec.payload::text) || ' bytes of JSON, at most 16777216 are allowed'
      when strpos(spec.payload::text, E'\\u') = 0 then null
      when spec.payload::text ~ E'(^|[^\\\\])(\\\\\\\\)*\\\\u0000'
        then E'GWBPL payload holds \\u0000, which PostgreSQL cannot store as text'
      -- Without escaped backslashes and whole pairs, as in _check_escapes. No worker could read such a payload.
      when regexp_replace(
          replace(spec.payload::text, E'\\\\', '..'),
          E'\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}', '..', 'g') ~ E'\\\\u[dD][89a-fA-F]'
        then 'GWBPL payload holds half of a surrogate pair, which is no character'
    end as rule
    from unnest(jobs) with ordinality as spec offset 0) as broken
  where broken.rule is not null
  order by broken.ord limit 1;
  if found then
    raise exception using errcode = split_part(bad.rule, ' ', 1), column = split_part(bad.rule, ' ', 2),
      message = substr(bad.rule, 7), detail = 'Job ' || bad.ord || ' of ' || cardinality(jobs) || '.';
  end if;
end
$$;
