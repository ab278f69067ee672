-- Add jobs of which some have a key under a unique policy or an idempotency key. No two jobs share a key. The keys and
-- the jobs that have them are locked. Returns a row for each job.
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
create or replace function asyncq._resolve_unique(jobs asyncq._new_job[])
  returns table (ord bigint, outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  -- The instant after the locks.
  moment constant timestamptz := asyncq.clock();
  -- Of each job: the job that decides, its state, the outcome of the add, and the job that fulfils the request.
  existing_ids bigint[];
  existing_states text[];
  outcomes text[];
  ids bigint[];
  added bigint[];
  replaced record;
begin
  select array_agg(placed.id order by placed.ord), array_agg(placed.state order by placed.ord),
      array_agg(placed.outcome order by placed.ord)
    into existing_ids, existing_states, outcomes
    from (
      select given.ordinality as ord, coalesce(request.id, other.id) as id, coalesce(request.state, other.state) as state,
        case
          when request.id is not null then 'deduplicated'
          when other.id is null then 'added'
          when other.state = 'active' and given.rerun then 'updated'
          when given.on_conflict = 'ignore' then 'deduplicated'
          when given.on_conflict = 'reject' then 'rejected'
          else 'added'
        end as outcome
      from unnest(jobs) with ordinality as given
      left join lateral asyncq._request(given.idempotency_key, moment) as request on true
      left join lateral (
        select matched.id, matched.state from asyncq._matches(given.unique_key, given.states, given.period, moment) as matched
        where request.id is null and given.on_conflict <> 'add'
        order by case
            when given.rerun is not true or matched.state in ('scheduled', 'available', 'retryable', 'pending') then 0
            when matched.state = 'active' then 1
            else 2
          end, matched.created_at desc, matched.id desc limit 1) as other on true) as placed;
  added := array_positions(outcomes, 'added');

  if 'updated' = any(outcomes) then
    update asyncq._jobs as job set rerun = coalesce(given.payload, '{}'), updated_at = asyncq.now()
      from unnest(jobs) with ordinality as given
      where outcomes[given.ordinality] = 'updated' and job.id = any(array[existing_ids[given.ordinality]]);
  end if;
  for replaced in
    select given.ord, schedule.run_at
    from unnest(added) as given(ord)
    cross join lateral (
      select matched.run_at
      from asyncq._matches(jobs[given.ord].unique_key, jobs[given.ord].states, jobs[given.ord].period, moment) as matched
      where matched.state in ('scheduled', 'pending') and jobs[given.ord].on_conflict = 'replace_except_schedule'
      order by matched.created_at desc, matched.id desc limit 1) as schedule
    where existing_ids[given.ord] is not null
  loop
    jobs[replaced.ord].run_at := replaced.run_at;
  end loop;
  perform asyncq._replace_jobs(
    array(select jobs[given.ord] from unnest(added) as given(ord) where existing_ids[given.ord] is not null), moment);

  select array_agg(done.outcome order by done.ord), array_agg(done.id order by done.ord),
      array_agg(coalesce(done.existing_id, existing_ids[done.ord]) order by done.ord),
      array_agg(coalesce(done.existing_state, existing_states[done.ord]) order by done.ord)
    into outcomes, ids, existing_ids, existing_states
    from (
      select held.ord, held.outcome, held.id, null::bigint as existing_id, null::text as existing_state
      from unnest(outcomes, existing_ids) with ordinality as held(outcome, id, ord)
      where held.outcome <> 'added'
      union all
      select added[done.ord], done.outcome, done.id, done.existing_id, done.existing_state
      from asyncq._resolve_job_keys(array(select jobs[given.ord] from unnest(added) as given(ord))) as done) as done;
  if exists (select from unnest(jobs) as given where given.idempotency_key is not null) then
    perform asyncq._store_requests(jobs, outcomes, ids);
  end if;
  return query
    select done.ord, done.outcome, done.id, done.existing_id, done.existing_state
    from unnest(outcomes, ids, existing_ids, existing_states) with ordinality
      as done(outcome, id, existing_id, existing_state, ord);
end
$$;

-- The jobs that prevent an add under its unique policy: the only copy of this rule. They have its key and one of the
-- policy's states, and were created within the policy's period. Inlined into statements whose snapshots are newer than
-- the locks. Each index is probed once under every plan: no other condition fits one, and offset 0 prevents a join.
create or replace function asyncq._matches(unique_key bytea, states text[], period text, moment timestamptz)
  returns table (id bigint, state text, created_at timestamptz, run_at timestamptz)
  language sql stable
  as $$
  select held.id, held.state, held.created_at, held.run_at
  from (
    select job.id, asyncq._state(job), job.created_at, coalesce(job.due_at, job.run_at)
    from asyncq._jobs as job
    where job.unique_key = _matches.unique_key
      and not asyncq._is_discarded(job)
      -- A waiting job that has expired will never run.
      and (job.expires_at is null or job.locked_by is not null or job.expires_at > moment)
    union all
    select job.id, 'discarded', job.created_at, job.run_at
    from asyncq._jobs as job
    where 'discarded' = any(states) and job.unique_key = _matches.unique_key
      and not asyncq._is_ready(job) and asyncq._state(job) = 'discarded'
    union all
    select ended.id, ended.state, ended.created_at, null
    from asyncq._ended_jobs as ended
    where states && '{completed,cancelled,discarded}'
      and ended.unique_key = _matches.unique_key and coalesce(ended.keep_until, 'infinity') > moment)
    as held(id, state, created_at, run_at)
  where held.state = any(coalesce(states, '{available,active,scheduled,retryable,pending}'))
    and (period is null
      or ((held.created_at at time zone 'UTC') + asyncq._period(period)) at time zone 'UTC' > moment)
  offset 0
  $$;

-- Make room for replacing jobs: waiting jobs end as cancelled, running ones are cancelled, ended ones lose the key.
create or replace function asyncq._replace_jobs(jobs asyncq._new_job[], moment timestamptz) returns void
  language plpgsql volatile
  as $$
declare
  waiting bigint[];
  running bigint[];
  ended bigint[];
begin
  if cardinality(jobs) = 0 then
    return;
  end if;
  select array_agg(matched.id) filter (where matched.state in ('scheduled', 'available', 'retryable', 'pending')),
      array_agg(matched.id) filter (where matched.state = 'active'),
      array_agg(matched.id) filter (where matched.state in ('completed', 'cancelled', 'discarded'))
    into waiting, running, ended
    from unnest(jobs) as given
    cross join lateral asyncq._matches(given.unique_key, given.states, given.period, moment) as matched;
  perform asyncq._end_jobs(waiting, 'cancelled');
  perform asyncq._cancel_running(running);
  update asyncq._jobs as job set unique_key = null where job.id = any(ended);
  update asyncq._ended_jobs as job set unique_key = null where job.id = any(ended);
end
$$;
