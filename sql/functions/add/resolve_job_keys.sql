-- Add jobs whose job keys other jobs may have. The keys and these jobs are locked, and no two jobs share a key. Returns
-- a row for each job, unordered.
--
--   the job that has the key           replace                        preserve_run_at          unsafe_dedupe
--   none                               added                          added                    added
--   waits, no attempt failed           updated                        updated, run_at kept     deduplicated
--   waits for its retry                updated, attempts 0            the same                 deduplicated
--   runs, or is discarded              loses its key and its further  the same                 deduplicated
--                                      attempts; a new one is added
--
-- Each lateral subquery is one index probe, and each update is bound to ids, whatever the planner knows of the table.
create or replace function asyncq._resolve_job_keys(jobs asyncq._new_job[])
  returns table (ord bigint, outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  -- Of each job: the holder of its key, that one's state, and the outcome of the add.
  holders bigint[];
  states text[];
  outcomes text[];
  added bigint[];
  updated bigint[];
begin
  select array_agg(placed.id order by placed.ord), array_agg(placed.state order by placed.ord), array_agg(
      case
        when placed.id is null then 'added'
        when placed.mode = 'unsafe_dedupe' then 'deduplicated'
        when placed.state in ('active', 'discarded') then 'added'
        else 'updated'
      end order by placed.ord)
    into holders, states, outcomes
    from (
      select given.ordinality as ord, given.job_key_mode as mode, holder.id, holder.state
      from unnest(jobs) with ordinality as given
      left join lateral (
        select job.id, asyncq._state(job) as state from asyncq._jobs as job where job.key = given.job_key offset 0
      ) as holder on true) as placed;
  added := array_positions(outcomes, 'added');
  updated := array_positions(outcomes, 'updated');

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
      from unnest(jobs) with ordinality as given
      where outcomes[given.ordinality] in ('added', 'updated');
  end if;
  if 'updated' = any(outcomes) then
    perform asyncq._update_jobs(
      array(select jobs[ord] from unnest(updated) as ord), array(select holders[ord] from unnest(updated) as ord));
  end if;
  if 'added' = any(outcomes) then
    if array_remove(holders, null) <> '{}' then
      -- A holder that runs is in its last attempt now: its result counts, and its key goes to the new job.
      update asyncq._jobs as job
        set key = null, attempts = job.max_attempts - (job.locked_by is not null)::int,
          attempts_made = coalesce(job.attempts_made, job.attempts), updated_at = asyncq.now()
        where job.id = any(array(
          select holders[ord] from unnest(added) as ord where holders[ord] is not null));
    end if;
    return query
      select stored.ord, 'added', stored.id, holders[stored.ord], states[stored.ord]
      from unnest(added, asyncq._insert_jobs(array(select jobs[ord] from unnest(added) as ord))) as stored(ord, id);
  end if;
  return query
    select held.ord, held.outcome, held.id, held.id, held.state
    from unnest(holders, states, outcomes) with ordinality as held(id, state, outcome, ord)
    where held.outcome <> 'added';
end
$$;
