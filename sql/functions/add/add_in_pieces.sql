-- Add jobs as if one by one, when other jobs have their keys or jobs of the call share keys. asks: some depend on
-- others by their extras; keys: what _lock_key_holders returned. The keys and the jobs that have them are locked.
-- Returns a row for each job, unordered.
--
-- The call is cut into pieces. In a piece no job shares a key with an earlier one; and if keys mix, no job looks at a
-- job that an earlier one may have changed by its job key. If all jobs of a key ask for the same, and none does more
-- than ask, the first job of each key is added and answers the others. So a call with thousands of jobs of one key is
-- one piece.
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
    -- Write out the default states, which are about to be compared.
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
    -- The tasks of all pieces at once: piece by piece, two calls could wait for each other. The task of a job that its
    -- key refuses is not stored.
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

-- Add jobs that all ask alike (_all_ask_alike): the first of each key is added, or barred by another job; it answers
-- the others.
create or replace function asyncq._add_first_of_each_key(
  identifiers text[], payloads json[], queue_names text[], run_ats timestamptz[], max_attempts int[], priorities int[],
  flags jsonb[], metas jsonb[], extras jsonb[])
  returns table (ord bigint, outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  -- Of each job: whether it is the first of its key (or has none), the position of its first among the firsts, and its
  -- outcome if it is not the first.
  firsts boolean[];
  positions bigint[];
  refusals text[];
  -- Of each first one.
  outcomes text[];
  ids bigint[];
  existing_ids bigint[];
  existing_states text[];
begin
  select array_agg(given.ord = given.first order by given.ord), array_agg(given.position order by given.ord),
      array_agg(case given.strategy when 'reject' then 'rejected' else 'deduplicated' end order by given.ord)
    into firsts, positions, refusals
    from (
      select spec.ord, spec.first, spec.strategy, dense_rank() over (order by spec.first) as position
      from (
        select keyed.ord, keyed.extra ->> 'on_conflict' as strategy, case
            when keyed.extra is null then keyed.ord
            else first_value(keyed.ord) over (partition by keyed.extra ->> 'key' order by keyed.ord)
          end as first
        from unnest(extras) with ordinality as keyed(extra, ord)) as spec) as given;
  select array_agg(given.identifier order by given.ord), array_agg(given.payload order by given.ord),
      array_agg(given.queue_name order by given.ord), array_agg(given.run_at order by given.ord),
      array_agg(given.max_attempts order by given.ord), array_agg(given.priority order by given.ord),
      array_agg(given.flags order by given.ord), array_agg(given.meta order by given.ord),
      array_agg(given.extra order by given.ord)
    into identifiers, payloads, queue_names, run_ats, max_attempts, priorities, flags, metas, extras
    from unnest(identifiers, payloads, queue_names, run_ats, max_attempts, priorities, flags, metas, extras, firsts)
      with ordinality as given(
        identifier, payload, queue_name, run_at, max_attempts, priority, flags, meta, extra, is_first, ord)
    where given.is_first;
  select array_agg(done.outcome order by done.ord), array_agg(done.id order by done.ord),
      array_agg(done.existing_id order by done.ord), array_agg(done.existing_state order by done.ord)
    into outcomes, ids, existing_ids, existing_states
    from asyncq._resolve_unique(
      identifiers, payloads, queue_names, run_ats, max_attempts, null, priorities, flags, null, metas, extras) as done;
  return query
    select answer.ord, case when answer.is_first then outcomes[answer.position] else answer.refusal end,
      ids[answer.position],
      case when answer.is_first then existing_ids[answer.position] else ids[answer.position] end,
      case
        when answer.is_first or outcomes[answer.position] <> 'added' then existing_states[answer.position]
        when run_ats[answer.position] > asyncq.now() then 'scheduled'
        else 'available'
      end
    from unnest(firsts, positions, refusals) with ordinality as answer(is_first, position, refusal, ord);
end
$$;

-- Whether jobs that share a key under a unique policy can be added by _add_first_of_each_key: the first prevents each,
-- or the job that prevents the first does. So no job of the call replaces, forces or reruns, or has a job key or an
-- idempotency key; and the jobs of a key look at the same states, for the same period, including the states of a new
-- job. A record without a key is like no other. Null would not count as a failed condition, so it is false.
create or replace function asyncq._all_ask_alike(job_keys text[], extras jsonb[]) returns boolean
  language sql immutable
  as $$
  select coalesce(array_remove(job_keys, null) = '{}', true) and bool_and(coalesce(
    given.extra ? 'key'
    and not given.extra ?| '{request,rerun}'
    and given.extra ->> 'on_conflict' in ('ignore', 'reject')
    and given.extra -> 'states' ?& '{available,scheduled}'
    and coalesce(asyncq._period(given.extra ->> 'period') > '0', true)
    and given.extra -> 'states' = given.first -> 'states'
    and given.extra ->> 'period' is not distinct from given.first ->> 'period', false))
  from (
    select spec.extra, first_value(spec.extra) over (partition by spec.extra ->> 'key' order by spec.ord) as first
    from unnest(extras) with ordinality as spec(extra, ord)
    where spec.extra is not null) as given
  $$;

-- Whether a job has, or will have in this call, both a job key and a key under a unique policy. Then two jobs of the
-- call that share no key may meet in it. The keys are locked.
create or replace function asyncq._mixes_keys(job_keys text[], extras jsonb[]) returns boolean
  language plpgsql volatile
  as $$
begin
  return array_remove(job_keys, null) <> '{}' and (
    exists (
      select from unnest(job_keys, extras) as given(job_key, extra) where given.job_key is not null and given.extra ? 'key')
    or exists (select from asyncq._jobs as job where job.key = any(job_keys) and job.unique_key is not null));
end
$$;
