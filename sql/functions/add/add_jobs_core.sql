-- What _add_many_jobs does, with a row for each spec, in their order.

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
