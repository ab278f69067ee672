-- Add jobs of which some depend on others, and no two share a key; the keys and the jobs that have them are locked.
-- Three questions in turn: was this very request made before (idempotency keys), does another job prevent it (unique
-- policies), does another job have its job key?
--
--   the newest job that prevents it  ignore          reject      rerun           replace
--   waits                            deduplicated    rejected    as without      added; the other ends as cancelled
--   runs                             deduplicated    rejected    updated         added; the other is cancelled
--   has ended                        deduplicated    rejected    as without      added; the other loses the key
--
-- A rerun stores the payload with which the job runs again when its run ends. It applies if only running jobs prevent
-- the request: a job that waits will run later anyhow.
create or replace function asyncq._resolve_unique(
  identifiers text[], payloads json[], queue_names text[], run_ats timestamptz[], max_attempts int[], job_keys text[],
  priorities int[], flags jsonb[], job_key_modes text[], metas jsonb[], extras jsonb[])
  returns table (ord bigint, outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  -- The instant after the locks.
  moment constant timestamptz := asyncq.clock();
  -- Parallel to the others: the job that decides, its state, and the outcome of the add.
  existing_ids bigint[];
  existing_states text[];
  outcomes text[];
  replaces boolean;
  -- The answer.
  ords bigint[];
  ids bigint[];
begin
  select array_agg(placed.id order by placed.ord), array_agg(placed.state order by placed.ord),
      array_agg(placed.outcome order by placed.ord), bool_or(placed.outcome = 'added' and placed.id is not null)
    into existing_ids, existing_states, outcomes, replaces
    from (
      select given.ord, coalesce(request.id, other.id) as id, coalesce(request.state, other.state) as state,
        case
          when request.id is not null then 'deduplicated'
          when other.id is null then 'added'
          when other.state = 'active' and given.extra ? 'rerun' then 'updated'
          when given.extra ->> 'on_conflict' = 'ignore' then 'deduplicated'
          when given.extra ->> 'on_conflict' = 'reject' then 'rejected'
          else 'added'
        end as outcome
      from unnest(extras) with ordinality as given(extra, ord)
      left join lateral asyncq._request(given.extra ->> 'request', moment) as request on true
      left join lateral (
        select matched.id, matched.state from asyncq._matches(given.extra, moment) as matched
        where request.id is null and given.extra ->> 'on_conflict' <> 'add'
        order by case
            when not given.extra ? 'rerun' or matched.state in ('scheduled', 'available', 'retryable') then 0
            when matched.state = 'active' then 1
            else 2
          end, matched.created_at desc, matched.id desc limit 1) as other on true) as placed;

  if 'updated' = any(outcomes) then
    update asyncq._jobs as job set rerun = coalesce(given.payload, '{}'), updated_at = asyncq.now()
      from unnest(payloads, existing_ids, outcomes) as given(payload, id, outcome)
      where given.outcome = 'updated' and job.id = any(array[given.id]);
  end if;
  if replaces then
    select array_agg(coalesce(schedule.run_at, given.run_at) order by given.ord) into run_ats
      from unnest(extras, run_ats, outcomes, existing_ids) with ordinality
        as given(extra, run_at, outcome, existing_id, ord)
      left join lateral (
        select matched.run_at from asyncq._matches(given.extra, moment) as matched
        where given.outcome = 'added' and given.existing_id is not null and matched.state = 'scheduled'
          and given.extra ->> 'on_conflict' = 'replace_except_schedule'
        order by matched.created_at desc, matched.id desc limit 1) as schedule on true;
    perform asyncq._replace_jobs(extras, outcomes, existing_ids, moment);
  end if;

  select array_agg(done.ord), array_agg(done.outcome), array_agg(done.id),
      array_agg(coalesce(done.existing_id, existing_ids[done.ord])),
      array_agg(coalesce(done.existing_state, existing_states[done.ord]))
    into ords, outcomes, ids, existing_ids, existing_states
    from (
      select held.ord, held.outcome, held.id, null::bigint as existing_id, null::text as existing_state
      from unnest(outcomes, existing_ids) with ordinality as held(outcome, id, ord)
      where held.outcome <> 'added'
      union all
      select done.ord, done.outcome, done.id, done.existing_id, done.existing_state
      from asyncq._resolve_job_keys(
        identifiers, payloads, queue_names, run_ats, max_attempts, job_keys, priorities, flags, job_key_modes, metas,
        extras, outcomes) as done) as done;
  if exists (select from unnest(extras) as given where given ? 'request') then
    perform asyncq._store_requests(
      array_agg(identifiers[given.ord]), array_agg(payloads[given.ord]), array_agg(extras[given.ord]),
      array_agg(given.outcome), array_agg(given.id))
      from unnest(ords, outcomes, ids) as given(ord, outcome, id);
  end if;
  return query
    select done.ord, done.outcome, done.id, done.existing_id, done.existing_state
    from unnest(ords, outcomes, ids, existing_ids, existing_states)
      as done(ord, outcome, id, existing_id, existing_state);
end
$$;

-- The jobs that prevent an add under its unique policy. This is the only copy of this rule. They have its key and one
-- of the policy's states, and were created within the policy's period. Inlined into statements whose snapshots are
-- newer than the locks. is_row: the job has a row in _jobs, and is not only kept as ended.
-- One probe of each index under every plan: only the key's condition fits an index, and offset 0 keeps it from becoming
-- a join.
create or replace function asyncq._matches(extra jsonb, moment timestamptz)
  returns table (id bigint, state text, created_at timestamptz, run_at timestamptz, is_row boolean)
  language sql stable
  as $$
  select held.id, held.state, held.created_at, held.run_at, held.is_row
  from (
    select job.id, asyncq._state(job), job.created_at, job.run_at, true
    from asyncq._jobs as job
    where job.unique_key = decode(extra ->> 'key', 'hex')
      and not asyncq._is_discarded(job)
    union all
    select job.id, 'discarded', job.created_at, job.run_at, true
    from asyncq._jobs as job
    where extra -> 'states' ? 'discarded' and job.unique_key = decode(extra ->> 'key', 'hex')
      and not asyncq._is_ready(job) and asyncq._state(job) = 'discarded'
    union all
    select ended.id, ended.state, ended.created_at, null, false
    from asyncq._ended_jobs as ended
    where extra -> 'states' ?| '{completed,cancelled,discarded}'
      and ended.unique_key = decode(extra ->> 'key', 'hex') and coalesce(ended.keep_until, 'infinity') > moment)
    as held(id, state, created_at, run_at, is_row)
  where extra -> 'states' ? held.state
    and (extra ->> 'period' is null
      or ((held.created_at at time zone 'UTC') + asyncq._period(extra ->> 'period')) at time zone 'UTC' > moment)
  offset 0
  $$;

-- Make room for jobs that replace others (outcome 'added' with an existing job): waiting jobs end as cancelled, running
-- ones are cancelled, ended ones lose the key.
create or replace function asyncq._replace_jobs(
  extras jsonb[], outcomes text[], existing_ids bigint[], moment timestamptz) returns void
  language plpgsql volatile
  as $$
declare
  waiting bigint[];
  running bigint[];
  ended bigint[];
begin
  select array_agg(matched.id) filter (where matched.state in ('scheduled', 'available', 'retryable')),
      array_agg(matched.id) filter (where matched.state = 'active'),
      array_agg(matched.id) filter (where matched.state in ('completed', 'cancelled', 'discarded'))
    into waiting, running, ended
    from unnest(extras, outcomes, existing_ids) as given(extra, outcome, existing_id)
    cross join lateral asyncq._matches(given.extra, moment) as matched
    where given.outcome = 'added' and given.existing_id is not null;
  perform asyncq._end_jobs(waiting, 'cancelled');
  perform asyncq._cancel_running(running);
  update asyncq._jobs as job set unique_key = null where job.id = any(ended);
  update asyncq._ended_jobs as job set unique_key = null where job.id = any(ended);
end
$$;
