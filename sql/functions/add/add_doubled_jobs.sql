-- Add jobs of which some have the same key, as if one by one: the second job with a key is in the second wave. The gates
-- are passed, the holders locked.
-- An unsafe_dedupe that is refused by the job that had the key before the call is in wave 0, so that all new jobs are in wave
-- 1: their ids follow the order of the specs.

create or replace function asyncq._add_doubled_jobs(
  identifiers text[], payloads json[], queue_names text[], run_ats timestamptz[], max_attempts int[], job_keys text[],
  priorities int[], flags jsonb[], job_key_modes text[], metas jsonb[])
  returns table (ord bigint, outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  ords bigint[];
  waves bigint[];
  refusals boolean[];
  first int := 1;
  last int;
begin
  -- From here on, all are in the order of the waves.
  select array_agg(ordered.ord), array_agg(ordered.wave), array_agg(ordered.is_refused),
      array_agg(ordered.identifier), array_agg(ordered.payload), array_agg(ordered.queue_name), array_agg(ordered.run_at),
      array_agg(ordered.max_attempts), array_agg(ordered.key), array_agg(ordered.priority), array_agg(ordered.flags),
      array_agg(ordered.mode), array_agg(ordered.meta)
    into ords, waves, refusals, identifiers, payloads, queue_names, run_ats, max_attempts, job_keys, priorities, flags,
      job_key_modes, metas
    from (
      select given.*, given.is_dedupe and (given.is_held or given.place > 1) as is_refused,
        case when given.key is null then 1
          else count(*) filter (where not (given.is_held and given.only_dedupes)) over (partition by given.key order by given.ord)
        end as wave
      from (
        select spec.*, spec.mode is not distinct from 'unsafe_dedupe' and spec.key is not null as is_dedupe,
          row_number() over same_key as place,
          bool_and(spec.mode is not distinct from 'unsafe_dedupe') over same_key as only_dedupes,
          holder.id is not null as is_held
        from unnest(
          identifiers, payloads, queue_names, run_ats, max_attempts, job_keys, priorities, flags, job_key_modes, metas)
          with ordinality as spec(
            identifier, payload, queue_name, run_at, max_attempts, key, priority, flags, mode, meta, ord)
        left join lateral (select job.id from asyncq._jobs as job where job.key = spec.key offset 0) as holder on true
        window same_key as (partition by spec.key order by spec.ord)) as given
      order by wave, ord) as ordered;
  -- All tasks at once: wave by wave, two calls could wait for each other.
  perform asyncq._store_tasks(array_agg(given.identifier))
    from unnest(identifiers, refusals) as given(identifier, is_refused)
    where not given.is_refused;
  while first <= cardinality(waves) loop
    last := first - 1 + cardinality(array_positions(waves, waves[first]));
    return query
      select ords[first - 1 + done.ord], done.outcome, done.id, done.existing_id, done.existing_state
      from asyncq._add_keyed_jobs(
        identifiers[first:last], payloads[first:last], queue_names[first:last], run_ats[first:last],
        max_attempts[first:last], job_keys[first:last], priorities[first:last], flags[first:last],
        job_key_modes[first:last], metas[first:last], null, null) as done;
    first := last + 1;
  end loop;
end
$$;
