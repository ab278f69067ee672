-- Add jobs as if one by one, when other jobs have their keys or jobs of the call share keys; asks says whether
-- some ask about others by their extras, keys is what _lock_key_holders returned. The keys and the jobs that have them
-- are locked. A row for each job, in no order.
--
-- The call is cut into pieces. In a piece no job shares a key with an earlier one; nor, when keys mix, does a job look at what
-- an earlier one may have changed by its job key. If all jobs of a key ask the same, and nothing in the call does more than to ask,
-- the first job of each key is added, and it answers the others: a call with thousands of jobs of one key is one piece.

create or replace function asyncq._add_in_pieces(
  identifiers text[], payloads json[], queue_names text[], run_ats timestamptz[], max_attempts int[], job_keys text[],
  priorities int[], flags jsonb[], job_key_modes text[], metas jsonb[], extras jsonb[], asks boolean, keys text)
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
    perform asyncq._check_requests(identifiers, payloads, extras);
    -- The default states are written out, now that somebody looks.
    extras := array(
      select case
          when given.extra ? 'key' and not given.extra ? 'states'
            then given.extra || '{"states": ["available", "active", "scheduled", "retryable", "pending"]}'
          else given.extra
        end
      from unnest(extras) with ordinality as given(extra, ord) order by given.ord);
  end if;
  if keys = 'repeated' and asks and asyncq._all_ask_alike(job_keys, extras) then
    return query
      select done.ord, done.outcome, done.id, done.existing_id, done.existing_state
      from asyncq._add_first_of_each_key(
        identifiers, payloads, queue_names, run_ats, max_attempts, priorities, flags, metas, extras) as done;
    return;
  end if;
  if keys = 'repeated' then
    mixes := asks and asyncq._mixes_keys(job_keys, extras);
    befores := array(
      select max(sharing.before)
      from (
        select used.ord, lag(used.ord) over (partition by used.kind, used.key order by used.ord) as before
        from (
          select given.ord, kind, case kind
              when 0 then given.job_key when 1 then given.extra ->> 'key' else given.extra ->> 'request'
            end as key
          from unnest(job_keys, extras) with ordinality as given(job_key, extra, ord)
          cross join generate_series(0, 2) as kind) as used
        where used.key is not null
        union all
        select given.ord, case when mixes and given.extra ->> 'on_conflict' <> 'add' then
            max(given.ord) filter (where given.job_key is not null)
              over (order by given.ord rows between unbounded preceding and 1 preceding)
          end
        from unnest(job_keys, extras) with ordinality as given(job_key, extra, ord)) as sharing
      group by sharing.ord order by sharing.ord);
    -- The tasks of all pieces at once: piece by piece, two calls could wait for each other. The task of a job that its key
    -- refuses is not stored.
    perform asyncq._store_tasks(array_agg(given.identifier))
      from unnest(identifiers, job_keys, job_key_modes, befores) as given(identifier, key, mode, before)
      where asks or given.key is null or given.mode is distinct from 'unsafe_dedupe'
        -- Not exists: PostgreSQL 18 answers that by a scan of all jobs if the table was empty when it made the plan.
        or given.before is null and (select job.id from asyncq._jobs as job where job.key = given.key) is null;
  end if;
  for stop in 1 .. cardinality(identifiers) loop
    continue when stop < cardinality(identifiers) and coalesce(befores[stop + 1], 0) < start;
    if asks then
      return query
        select start - 1 + done.ord, done.outcome, done.id, done.existing_id, done.existing_state
        from asyncq._resolve_unique(
          identifiers[start:stop], payloads[start:stop], queue_names[start:stop], run_ats[start:stop],
          max_attempts[start:stop], job_keys[start:stop], priorities[start:stop], flags[start:stop],
          job_key_modes[start:stop], metas[start:stop], extras[start:stop]) as done;
    else
      return query
        select start - 1 + done.ord, done.outcome, done.id, done.existing_id, done.existing_state
        from asyncq._resolve_job_keys(
          identifiers[start:stop], payloads[start:stop], queue_names[start:stop], run_ats[start:stop],
          max_attempts[start:stop], job_keys[start:stop], priorities[start:stop], flags[start:stop],
          job_key_modes[start:stop], metas[start:stop], extras[start:stop], null) as done;
    end if;
    start := stop + 1;
  end loop;
end
$$;
