-- Add many jobs in one call, in the order of the specs; the rows are returned in that order.
create or replace function asyncq.add_jobs(specs asyncq.job_spec[], job_key_preserve_run_at boolean default false)
  returns setof asyncq.jobs
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
  with given as (
    select array_agg(spec.identifier order by spec.ord) as identifiers, array_agg(spec.payload order by spec.ord) as payloads,
      array_agg(spec.queue_name order by spec.ord) as queue_names, array_agg(spec.run_at order by spec.ord) as run_ats,
      array_agg(spec.max_attempts::int order by spec.ord) as max_attempts, array_agg(spec.job_key order by spec.ord) as job_keys,
      array_agg(spec.priority::int order by spec.ord) as priorities,
      array_agg(asyncq._flags(spec.flags) order by spec.ord) as flags,
      array_agg(case when job_key_preserve_run_at then 'preserve_run_at' else 'replace' end) as job_key_modes
    from unnest(specs) with ordinality
      as spec(identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, ord)
    having count(*) > 0),
  added as materialized (
    select job.id, job.ord from given cross join lateral asyncq._add_jobs(
      given.identifiers, given.payloads, given.queue_names, given.run_ats, given.max_attempts, given.job_keys,
      given.priorities, given.flags, given.job_key_modes, null) as job)
  select found.* from added cross join lateral asyncq._job(added.id) as found order by added.ord
  $$;

-- Call _add_many_jobs, and return a row for each spec, in their order.
create or replace function asyncq._add_jobs(
  identifiers text[], payloads json[], queue_names text[], run_ats timestamptz[], max_attempts int[], job_keys text[],
  priorities int[], flags jsonb[], job_key_modes text[], metas jsonb[], extras jsonb[] default null)
  returns table (ord bigint, outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
begin
  return query
    select stored.ord, coalesce(special.outcome, 'added'), stored.id, special.existing_id, special.existing_state
    from asyncq._add_many_jobs(
      identifiers, payloads, queue_names, run_ats, max_attempts, job_keys, priorities, flags, job_key_modes, metas, extras) as added
    cross join lateral unnest(added.ids) with ordinality as stored(id, ord)
    left join lateral unnest(added.ords, added.outcomes, added.existing_ids, added.existing_states)
      as special(ord, outcome, existing_id, existing_state) on special.ord = stored.ord
    order by stored.ord;
end
$$;
