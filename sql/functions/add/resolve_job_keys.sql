-- Add jobs whose job keys other jobs may have; the keys and these jobs are locked, and no two jobs have the same key.
-- decided (null for none) has an outcome for each job: those that are not 'added' are left alone, and not in the
-- answer.
--
--   the job that has the key           replace                        preserve_run_at          unsafe_dedupe
--   none                               added                          added                    added
--   waits, no attempt failed           updated                        updated, run_at kept     deduplicated
--   waits for its retry                updated, attempts 0            the same                 deduplicated
--   runs, or is discarded              loses its key and its further  the same                 deduplicated
--                                      attempts; a new one is added
--
-- Each lateral subquery is one index probe, and each update is bound to ids, whatever the planner knows of the table.
create or replace function asyncq._resolve_job_keys(
  identifiers text[], payloads json[], queue_names text[], run_ats timestamptz[], max_attempts int[], job_keys text[],
  priorities int[], flags jsonb[], job_key_modes text[], metas jsonb[], extras jsonb[], decided text[])
  returns table (ord bigint, outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  -- Parallel to the others: the holder of the key, its state, and the outcome of the add.
  holders bigint[];
  states text[];
  outcomes text[];
begin
  select array_agg(placed.id), array_agg(placed.state), array_agg(
      case
        when placed.decided <> 'added' then 'decided'
        when placed.id is null then 'added'
        when placed.mode = 'unsafe_dedupe' then 'deduplicated'
        when placed.state in ('active', 'discarded') then 'added'
        else 'updated'
      end)
    into holders, states, outcomes
    from (
      select holder.id, holder.state, given.mode, given.decided
      from unnest(job_keys, job_key_modes, decided) with ordinality as given(key, mode, decided, ord)
      left join lateral (
        select job.id, asyncq._state(job) as state from asyncq._jobs as job
        where job.key = given.key and coalesce(given.decided, 'added') = 'added' offset 0
      ) as holder on true
      order by given.ord) as placed;

  if 'deduplicated' = any(outcomes) then
    update asyncq._jobs as job set revision = job.revision + hit.times, updated_at = asyncq.now()
      from (
        select given.id, count(*) as times from unnest(holders, outcomes) as given(id, outcome)
        where given.outcome = 'deduplicated' group by given.id) as hit
      where job.id = any(array[hit.id]);
  end if;
  if outcomes && '{added,updated}' then
    -- The task of a refused add is not stored.
    perform asyncq._store_tasks(array_agg(given.identifier))
      from unnest(identifiers, outcomes) as given(identifier, outcome)
      where given.outcome in ('added', 'updated');
  end if;
  if 'updated' = any(outcomes) then
    perform asyncq._update_jobs(
      identifiers, payloads, queue_names, run_ats, max_attempts, priorities, flags, job_key_modes, metas, extras, holders,
      outcomes);
  end if;
  if 'added' = any(outcomes) then
    if array_remove(holders, null) <> '{}' then
      -- A holder that runs is in its last attempt now: its result counts, and its key goes to the new job.
      update asyncq._jobs as job
        set key = null, attempts = job.max_attempts - (job.locked_by is not null)::int,
          attempts_made = coalesce(job.attempts_made, job.attempts), updated_at = asyncq.now()
        where job.id = any(array(
          select given.id from unnest(holders, outcomes) as given(id, outcome)
          where given.outcome = 'added' and given.id is not null));
    end if;
    return query
      select stored.ord::bigint, 'added', stored.id, holders[stored.ord], states[stored.ord]
      from unnest(
        array_positions(outcomes, 'added'),
        asyncq._insert_jobs(
          identifiers, payloads, queue_names, run_ats, max_attempts, job_keys, priorities, flags, metas, extras,
          outcomes)) as stored(ord, id);
  end if;
  return query
    select held.ord, held.outcome, held.id, held.id, held.state
    from unnest(holders, states, outcomes) with ordinality as held(id, state, outcome, ord)
    where held.outcome not in ('added', 'decided');
end
$$;

-- Change waiting jobs to what new adds of their keys say. Parallel arrays as in _add_jobs; for the outcome 'updated'
-- the job of that id is locked, and its task is stored. An option that the add leaves out becomes the default, except
-- that a job stays kept as an earlier add asked.
create or replace function asyncq._update_jobs(
  identifiers text[], payloads json[], queue_names text[], run_ats timestamptz[], max_attempts int[], priorities int[],
  flags jsonb[], job_key_modes text[], metas jsonb[], extras jsonb[], ids bigint[], outcomes text[]) returns void
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  moment constant timestamptz := asyncq.now();
  updated int;
begin
  update asyncq._jobs as job
    set task_id = task.id, queue = given.queue,
      payload = asyncq._merged_payload(job.payload, coalesce(given.payload, '{}')),
      run_at = case when given.mode = 'preserve_run_at' and job.attempts = 0 then job.run_at
        else coalesce(given.run_at, moment) end,
      max_attempts = asyncq._max_attempts(given.max_attempts), priority = asyncq._priority(given.priority),
      flags = given.flags, meta = given.meta, unique_key = decode(given.extra ->> 'key', 'hex'),
      keep_until = greatest(job.keep_until, asyncq._kept_until(given.extra, job.created_at)),
      keep_states = case when asyncq._kept_states(given.extra) <@ job.keep_states then job.keep_states
        else array_cat(job.keep_states, asyncq._kept_states(given.extra)) end,
      attempts = 0, interruptions = 0, last_error = null, revision = job.revision + 1, updated_at = moment
    from unnest(
      identifiers, payloads, queue_names, run_ats, _update_jobs.max_attempts, priorities, _update_jobs.flags, job_key_modes,
      metas, extras, ids, outcomes)
      as given(identifier, payload, queue, run_at, max_attempts, priority, flags, mode, meta, extra, id, outcome)
    cross join lateral (select id from asyncq._tasks where identifier = given.identifier offset 0) as task
    where given.outcome = 'updated' and job.id = any(array[given.id]);
  get diagnostics updated = row_count;
  if updated <> cardinality(array_positions(outcomes, 'updated')) then
    raise exception using errcode = '40001',
      message = 'a task vanished while its job was updated; the same call will work';
  end if;
end
$$;

-- Two arrays are joined, the old one first; in every other case the new payload replaces the old.
create or replace function asyncq._merged_payload(old json, new json) returns json
  language plpgsql immutable parallel safe
  as $$
declare
  joined json;
begin
  if json_typeof(old) is distinct from 'array' or json_typeof(new) is distinct from 'array' then
    return new;
  end if;
  joined := old::jsonb || new::jsonb;
  if octet_length(joined::text) > 16777216 then
    raise exception using errcode = 'GWBPL', column = 'payload',
      message = 'payload is ' || octet_length(joined::text) || ' bytes of JSON once it is merged, at most 16777216 are allowed';
  end if;
  return joined;
end
$$;
