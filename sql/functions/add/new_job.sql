-- A job to be added, from the values that most adds have, and the record of its options (extra; null for none). The
-- arguments after extra are for callers in SQL, which have no record of these options.
-- Inlined, also into statements on callers' connections: so all names are qualified.
create or replace function asyncq._new_job(
  identifier text, payload json, queue_name text, run_at timestamptz, extra jsonb, max_attempts int default null,
  job_key text default null, priority int default null, flags jsonb default null, job_key_mode text default null)
  returns asyncq._new_job
  language sql stable
  as $$
  select pg_catalog.jsonb_populate_record(
    row(
      identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, job_key_mode,
      null, null, null, null, null, null, null, null, null, null, null, null, null, null)::asyncq._new_job,
    extra)
  $$;

-- The record of the options of an add: its members are attributes of the type _new_job. It is null without options. All
-- members of options are listed and checked here. A null member counts as missing, but meta must be an object.
-- asyncq/domain/deduplication.py makes the same record.
-- meta has limits, since a reader of jobs may refuse deeper nesting or larger numbers.
create or replace function asyncq._extra(options jsonb, identifier text, queue_name text, payload json, job_key text)
  returns jsonb
  language plpgsql stable
  as $$
declare
  known constant text[] := '{meta,unique,singleton,subject,force,rerun,idempotency_key,idempotency_window_s}'::text[]
    || '{timeout_s,soft_s,expires_s,expires_at,deadline_s,deadline_at,keep_s,after,if_failed,takes,takes_as}'::text[];
  unknown text;
  size int;
  -- The options without nulls, meta and unique.
  given jsonb;
  policy jsonb;
  is_singleton boolean;
  is_forced boolean;
  is_rerun boolean;
  fault text;
  extra jsonb := '{}';
begin
  if options is null then
    return null;
  end if;
  unknown := (
    select min(member collate "C") from jsonb_object_keys(case jsonb_typeof(options) when 'object' then options end) as member
    where member <> all(known));
  size := coalesce(octet_length((options -> 'meta')::text), 0);
  fault := case
    when jsonb_typeof(options) <> 'object' then 'options must be an object, got ' || jsonb_typeof(options)
    when unknown is not null then 'options: ''' || unknown || ''' is unknown; there are ' || array_to_string(known, ', ')
    when jsonb_typeof(options -> 'meta') <> 'object'
      then 'options: meta must be an object, got ' || jsonb_typeof(options -> 'meta')
    when size > 16777216 then 'options: meta is ' || size || ' bytes of JSON, at most 16777216 are allowed'
    -- A shorter text has no room for either.
    when size >= 309 and jsonb_path_exists(options, '$.meta.**{500}') then 'options: meta is nested more than 500 levels deep'
    when size >= 309 and jsonb_path_exists(
        options, 'strict $.meta.** ? (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308)')
      then 'options: meta holds a number beyond 1.8e308, which cannot be read'
  end;
  if fault is not null then
    raise exception using errcode = '22023', column = 'options', message = fault;
  end if;
  given := jsonb_strip_nulls(options - 'meta' - 'unique');
  policy := asyncq._check_policy(options -> 'unique');
  is_singleton := coalesce(given -> 'singleton' = 'true', false);
  is_forced := coalesce(given -> 'force' = 'true', false);
  is_rerun := coalesce(given -> 'rerun' = 'true', false);
  fault := case
    when jsonb_typeof(given -> 'singleton') <> 'boolean' then 'singleton must be true or false'
    when jsonb_typeof(given -> 'force') <> 'boolean' then 'force must be true or false'
    when jsonb_typeof(given -> 'rerun') <> 'boolean' then 'rerun must be true or false'
    when jsonb_typeof(given -> 'subject') <> 'string' then 'subject must be a text'
    when given ->> 'subject' = '' then 'subject is empty, at least 1 character is needed'
    when length(given ->> 'subject') > 512
      then 'subject is ' || length(given ->> 'subject') || ' characters long, at most 512 are allowed'
    when policy is not null and is_singleton
      then 'unique goes without singleton: both say which jobs may not exist beside each other'
    when given ? 'subject' and not is_singleton then 'subject says for what a job is the only one: it needs singleton'
    when is_forced and policy is null and not is_singleton then 'force lifts a policy: it needs unique or singleton'
    when is_rerun and policy is null and not is_singleton then 'rerun looks for a job that runs: it needs unique or singleton'
    when is_rerun and is_forced then 'rerun goes without force, which adds the job in any case'
    when is_rerun and policy ->> 'on_conflict' in ('replace', 'replace_except_schedule')
      then 'rerun waits for the job that runs, which unique.on_conflict ''' || (policy ->> 'on_conflict') || ''' cancels'
    when job_key is not null and not is_forced and (policy is not null or is_singleton)
      then 'job_key goes without unique and singleton: they are two answers to what becomes of an add beside another job'
    when jsonb_typeof(given -> 'idempotency_key') <> 'string' then 'idempotency_key must be a text'
    when given ->> 'idempotency_key' = '' then 'idempotency_key is empty, at least 1 character is needed'
    when length(given ->> 'idempotency_key') > 200
      then 'idempotency_key is ' || length(given ->> 'idempotency_key') || ' characters long, at most 200 are allowed'
    when given ? 'idempotency_window_s' and not given ? 'idempotency_key'
      then 'idempotency_window_s says for how long an idempotency_key holds, and there is none'
    when jsonb_typeof(given -> 'idempotency_window_s') <> 'number' then 'idempotency_window_s must be a number'
    when (given ->> 'idempotency_window_s')::numeric not between 0.000001 and 366 * 86400
      then 'idempotency_window_s is ' || left(given ->> 'idempotency_window_s', 40) || ', expected more than 0, at most 31622400'
  end;
  if fault is not null then
    raise exception using errcode = case when fault like 'idempotency%' then 'GWBIK' else 'GWBUP' end,
      column = split_part(fault, ' ', 1), message = fault;
  elsif identifier is null then
    -- _check_jobs refuses it.
    return null;
  end if;
  if is_singleton then
    policy := asyncq._check_policy('{"on_conflict": "ignore"}');
  end if;
  if policy is not null then
    extra := jsonb_build_object(
      'unique_key', asyncq._unique_key(
        policy, identifier, queue_name, payload, (options -> 'meta')::json, given ->> 'subject'),
      'on_conflict', case when is_forced then 'add' else policy ->> 'on_conflict' end, 'states', policy -> 'states',
      'period', policy -> 'period');
  end if;
  if is_rerun then
    extra := extra || '{"rerun": true}';
  end if;
  if given ? 'idempotency_key' then
    extra := extra || jsonb_build_object(
      'idempotency_key', given -> 'idempotency_key', 'window_s', coalesce(given -> 'idempotency_window_s', '86400'));
  end if;
  if options ? 'meta' then
    extra := extra || jsonb_build_object('meta', options -> 'meta');
  end if;
  return nullif(extra || asyncq._extras(given) || asyncq._after(given, job_key), '{}');
end
$$;

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

-- The key of a job under a unique policy: the SHA-256 of its counted parts, as canonical JSON. policy is the result of
-- _check_policy. args is the payload, null for {}; queue is null for a job without one. meta is json like args, for the
-- sake of its numbers; jsonb can be cast to it, as what jsonb changes is the same or refused.
-- subject is that of a singleton, whose policy is the default. Without a subject an add with the default policy has the
-- same key, and can replace the waiting singleton. No policy of the Open Job Spec has a subject.
-- The key is as secret as the payload: no message contains it.
create or replace function asyncq._unique_key(
  policy jsonb, type text, queue text, args json, meta json, subject text default null) returns bytea
  language plpgsql immutable
  as $$
declare
  dimension text;
  canonical text := '';
begin
  -- Members of args that are named have to be there, whether args count or not.
  if policy -> 'keys' ? 'args' or jsonb_array_length(nullif(policy -> 'args_keys', 'null')) > 0 then
    -- The first word is the name of the package, in two parts here, because it is not the name of the schema.
    if json_typeof(args) = 'string' and starts_with(args #>> '{}', 'async' || 'q:1:') then
      raise exception using errcode = 'GWBPL', column = 'payload',
        message = 'payload is encoded: only a client with its codec can compute a unique key from it';
    end if;
    dimension := asyncq._canonical_members(coalesce(args, '{}'), policy -> 'args_keys', 'args');
    if policy -> 'keys' ? 'args' then
      canonical := '"args":' || dimension || ',';
    end if;
  end if;
  if policy -> 'keys' ? 'meta' then
    dimension := asyncq._canonical_members(coalesce(meta, '{}'), policy -> 'meta_keys', 'meta');
    canonical := canonical || '"meta":' || dimension || ',';
  end if;
  if policy -> 'keys' ? 'queue' then
    canonical := canonical || '"queue":' || to_json(asyncq._nfc(coalesce(queue, 'default'))) || ',';
  end if;
  canonical := canonical || coalesce('"subject":' || to_json(asyncq._nfc(subject)) || ',', '');
  canonical := '{' || canonical || '"type":' || to_json(asyncq._nfc(type)) || '}';
  return sha256(convert_to(canonical, 'UTF8'));
end
$$;
