-- Add many jobs in one call, in the order of the specs; the rows are returned in that order. A spec has the arguments
-- of add_job, and its row and errors are those of add_job. job_key_preserve_run_at is for specs without a mode.
create or replace function asyncq.add_jobs(specs asyncq.job_spec[], job_key_preserve_run_at boolean default false)
  returns setof asyncq.jobs
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
begin
  return query
    select found.*
    from asyncq._add_jobs(array(
      select asyncq._new_job(
        spec.identifier, spec.payload, spec.queue_name, spec.run_at,
        asyncq._extra(spec.options, spec.identifier, spec.queue_name, spec.payload, spec.job_key), spec.max_attempts,
        spec.job_key, spec.priority, asyncq._flags(spec.flags),
        coalesce(spec.job_key_mode, case when job_key_preserve_run_at then 'preserve_run_at' end))
      from unnest(specs) with ordinality as spec order by spec.ordinality)) as added
    cross join lateral asyncq._added_job(
      added.outcome, added.id, added.existing_id, added.existing_state, specs[added.ord].identifier) as found
    order by added.ord;
end
$$;

-- Call _add_many_jobs, and return a row for each job, in their order.
create or replace function asyncq._add_jobs(jobs asyncq._new_job[])
  returns table (ord bigint, outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile
  as $$
#variable_conflict use_column
begin
  return query
    select stored.ord, coalesce(special.outcome, 'added'), stored.id, special.existing_id, special.existing_state
    from asyncq._add_many_jobs(jobs) as added
    cross join lateral unnest(added.ids) with ordinality as stored(id, ord)
    left join lateral unnest(added.ords, added.outcomes, added.existing_ids, added.existing_states)
      as special(ord, outcome, existing_id, existing_state) on special.ord = stored.ord
    order by stored.ord;
end
$$;
