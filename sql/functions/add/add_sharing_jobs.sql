-- Add jobs of which some share a key, as if one by one; some have a unique policy or an idempotency key. The gates are passed,
-- the holders locked.
--
-- When nothing in the call does more than to ask whether it is barred, and all jobs of a key ask the same, the first job of each
-- key is added, and the others are answered by what it came to. In any other case the call is cut into pieces, each as long as no
-- job shares a key with an earlier one of the piece; nor looks, when keys mix, at what an earlier one may have changed by its job
-- key.

create or replace function asyncq._add_sharing_jobs(
  identifiers text[], payloads json[], queue_names text[], run_ats timestamptz[], max_attempts int[], job_keys text[],
  priorities int[], flags jsonb[], job_key_modes text[], metas jsonb[], dedupes jsonb[])
  returns table (ord bigint, outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  mixes constant boolean := asyncq._mixes_keys(job_keys, dedupes);
  -- The last earlier job that has to be in an earlier piece.
  befores bigint[];
  start int := 1;
begin
  if asyncq._all_ask_alike(job_keys, dedupes) then
    return query
      select done.ord, done.outcome, done.id, done.existing_id, done.existing_state
      from asyncq._add_first_jobs(
        identifiers, payloads, queue_names, run_ats, max_attempts, priorities, flags, metas, dedupes) as done;
    return;
  end if;
  -- The tasks of all pieces at once: piece by piece, two calls could wait for each other.
  perform asyncq._store_tasks(identifiers);
  befores := array(
    select max(sharing.before)
    from (
      select used.ord, lag(used.ord) over (partition by used.kind, used.key order by used.ord) as before
      from (
        select given.ord, kind, case kind
            when 0 then given.job_key when 1 then given.dedupe ->> 'key' else given.dedupe ->> 'request'
          end as key
        from unnest(job_keys, dedupes) with ordinality as given(job_key, dedupe, ord)
        cross join generate_series(0, 2) as kind) as used
      where used.key is not null
      union all
      select given.ord, case when mixes and given.dedupe ->> 'on_conflict' <> 'add' then
          max(given.ord) filter (where given.job_key is not null)
            over (order by given.ord rows between unbounded preceding and 1 preceding)
        end
      from unnest(job_keys, dedupes) with ordinality as given(job_key, dedupe, ord)) as sharing
    group by sharing.ord order by sharing.ord);
  for stop in 1 .. cardinality(befores) loop
    if stop = cardinality(befores) or befores[stop + 1] >= start then
      return query
        select start - 1 + done.ord, done.outcome, done.id, done.existing_id, done.existing_state
        from asyncq._add_distinct_jobs(
          identifiers[start:stop], payloads[start:stop], queue_names[start:stop], run_ats[start:stop],
          max_attempts[start:stop], job_keys[start:stop], priorities[start:stop], flags[start:stop],
          job_key_modes[start:stop], metas[start:stop], dedupes[start:stop]) as done;
      start := stop + 1;
    end if;
  end loop;
end
$$;
