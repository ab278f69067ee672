-- Add jobs as if one by one, when other jobs have their keys or jobs of the call share keys. asks: some have a key
-- under a unique policy or an idempotency key. keys: the result of _lock_key_holders. The keys and the jobs that have
-- them are locked. Returns a row for each job, unordered.
--
-- The call is cut into pieces. In a piece no two jobs share a key. If keys mix, no job of a piece looks at a job that
-- an earlier one may have changed by its job key. If all jobs of the call ask alike, it is one piece, also with
-- thousands of jobs of one key.
create or replace function asyncq._add_in_pieces(jobs asyncq._new_job[], asks boolean, keys text)
  returns table (ord bigint, outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  mixes boolean;
  -- Of each job the last earlier one that has to be in an earlier piece.
  befores bigint[];
  start int := 1;
begin
  if asks then
    perform asyncq._check_requests(jobs);
  end if;
  if keys = 'repeated' and asks and asyncq._all_ask_alike(jobs) then
    return query
      select done.ord, done.outcome, done.id, done.existing_id, done.existing_state
      from asyncq._add_first_of_each_key(jobs) as done;
    return;
  end if;
  if keys = 'repeated' then
    mixes := asks and asyncq._mixes_keys(jobs);
    befores := array(
      select max(sharing.before)
      from (
        select used.ord, lag(used.ord) over (partition by used.kind, used.key order by used.ord) as before
        from (
          select given.ordinality as ord, kind, case kind
              when 0 then given.job_key when 1 then encode(given.unique_key, 'hex') else given.idempotency_key
            end as key
          from unnest(jobs) with ordinality as given
          cross join generate_series(0, 2) as kind) as used
        where used.key is not null
        union all
        select given.ordinality, case when mixes and given.on_conflict <> 'add' then
            max(given.ordinality) filter (where given.job_key is not null)
              over (order by given.ordinality rows between unbounded preceding and 1 preceding)
          end
        from unnest(jobs) with ordinality as given) as sharing
      group by sharing.ord order by sharing.ord);
    -- The tasks of all pieces at once: piece by piece, two calls could wait for each other. A refused job stores none.
    perform asyncq._store_tasks(array_agg(given.identifier))
      from unnest(jobs) with ordinality as given
      where asks or given.job_key is null or given.job_key_mode is distinct from 'unsafe_dedupe'
        -- Not by exists: PostgreSQL 18 would scan all jobs for it, if the table was empty when it made the plan.
        or befores[given.ordinality] is null
          and (select job.id from asyncq._jobs as job where job.key = given.job_key) is null;
  end if;
  for stop in 1 .. cardinality(jobs) loop
    continue when stop < cardinality(jobs) and coalesce(befores[stop + 1], 0) < start;
    if asks then
      return query
        select start - 1 + done.ord, done.outcome, done.id, done.existing_id, done.existing_state
        from asyncq._resolve_unique(jobs[start:stop]) as done;
    else
      return query
        select start - 1 + done.ord, done.outcome, done.id, done.existing_id, done.existing_state
        from asyncq._resolve_job_keys(jobs[start:stop]) as done;
    end if;
    start := stop + 1;
  end loop;
end
$$;

-- Add jobs that all ask alike (_all_ask_alike). The first job of each key is added, or another job prevents it. Its
-- result answers the other jobs of the key.
create or replace function asyncq._add_first_of_each_key(jobs asyncq._new_job[])
  returns table (ord bigint, outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile
  as $$
#variable_conflict use_column
begin
  return query
    with given as materialized (
      -- first: the first job of its key; a job without a key is the only one.
      select job.ordinality as ord, job.on_conflict, case
          when job.unique_key is null then job.ordinality
          else first_value(job.ordinality) over (partition by job.unique_key order by job.ordinality)
        end as first
      from unnest(jobs) with ordinality as job),
    firsts as materialized (select array_agg(ord order by ord) as ords from given where ord = first),
    added as materialized (
      select firsts.ords[done.ord] as ord, done.outcome, done.id, done.existing_id, done.existing_state
      from firsts
      cross join lateral asyncq._resolve_unique(
        array(select jobs[one.ord] from unnest(firsts.ords) with ordinality as one(ord, place) order by one.place)) as done)
    select given.ord, case
        when given.ord = added.ord then added.outcome
        when given.on_conflict = 'reject' then 'rejected'
        else 'deduplicated'
      end,
      added.id,
      case when given.ord = added.ord then added.existing_id else added.id end,
      case
        when given.ord = added.ord or added.outcome <> 'added' then added.existing_state
        when asyncq.now() < jobs[added.ord].run_at then 'scheduled'
        else 'available'
      end
    from given join added on added.ord = given.first;
end
$$;

-- Whether _add_first_of_each_key can add these jobs: the first job of a key, or the job that prevents it, prevents all
-- others. So no job of the call replaces, forces or reruns, or has a job key or an idempotency key. The jobs of a key
-- look at the same states, including those of a new job, for the same period. A condition that is null counts as false.
create or replace function asyncq._all_ask_alike(jobs asyncq._new_job[]) returns boolean
  language sql immutable
  as $$
  select bool_and(coalesce(
    given.job_key is null and given.idempotency_key is null and given.after is null and given.rerun is not true
    and (given.unique_key is null
      or given.on_conflict in ('ignore', 'reject')
      and (given.states is null or given.states @> '{available,scheduled}')
      and coalesce(asyncq._period(given.period) > '0', true)
      and given.states is not distinct from given.first_states
      and given.period is not distinct from given.first_period), false))
  from (
    select job.*, first_value(job.states) over of_key as first_states, first_value(job.period) over of_key as first_period
    from unnest(jobs) with ordinality as job
    window of_key as (partition by job.unique_key order by job.ordinality)) as given
  $$;

-- Whether a job has, or will have in this call, both a job key and a key under a unique policy. Then two jobs of the
-- call that share no key may meet in it. The keys are locked.
create or replace function asyncq._mixes_keys(jobs asyncq._new_job[]) returns boolean
  language sql volatile
  as $$
  select exists (
    select from unnest(jobs) as job
    where job.job_key is not null
      -- `offset 0`: each key is looked up, and no plan reads all jobs.
      and (job.unique_key is not null or exists (
        select from asyncq._jobs as held where held.key = job.job_key and held.unique_key is not null offset 0)))
  $$;
