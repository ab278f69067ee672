-- Add jobs whose job keys other jobs may have; the keys and these jobs are locked, and no two jobs have the same key.
-- decided (null for none) has an outcome for each job: those that are not 'added' are left alone, and not in the answer.
--
--   the job that has the key           replace                        preserve_run_at          unsafe_dedupe
--   none                               added                          added                    added
--   waits, no attempt failed           updated                        updated, run_at kept     deduplicated
--   waits for its retry                updated, attempts 0            the same                 deduplicated
--   runs, or is discarded       loses its key and its further  the same                 deduplicated
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
  -- Parallel to the others: the holder of the key, its state, and what the add comes to.
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
      -- A holder that runs is in its last attempt now: it ends as it will, and its key goes to the new job.
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
