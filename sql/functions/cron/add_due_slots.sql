-- Add the jobs of the slots at some positions, and remember the slots: both or neither. Parallel arrays as in _add_slots,
-- whose caller holds the items.

create or replace function asyncq._add_due_slots(
  ords bigint[], crontabs text[], slots timestamptz[], identifiers text[], payloads json[], queue_names text[],
  max_attempts int[], job_keys text[], priorities int[], flags jsonb[], job_key_modes text[], extras jsonb[])
  returns table (ord bigint, outcome text, id bigint)
  language plpgsql volatile
  as $$
#variable_conflict use_column
begin
  update asyncq.known_crontabs as known set last_execution = newest.slot
    from (
      select given.identifier, max(given.slot) as slot
      from unnest(crontabs, slots) with ordinality as given(identifier, slot, ord)
      where given.ord = any(ords) group by given.identifier) as newest
    where known.identifier = newest.identifier;
  return query
    with specs as (
      select
        array_agg(spec.ord order by spec.ord) as ords,
        array_agg(spec.slot order by spec.ord) as slots,
        array_agg(spec.identifier order by spec.ord) as identifiers,
        array_agg(spec.payload order by spec.ord) as payloads,
        array_agg(spec.queue_name order by spec.ord) as queue_names,
        array_agg(spec.max_attempts order by spec.ord) as max_attempts,
        array_agg(spec.job_key order by spec.ord) as job_keys,
        array_agg(spec.priority order by spec.ord) as priorities,
        array_agg(spec.flags order by spec.ord) as flags,
        array_agg(spec.job_key_mode order by spec.ord) as job_key_modes,
        array_agg(null::jsonb) as metas,
        array_agg(spec.extra order by spec.ord) as extras
      from unnest(
        slots, identifiers, payloads, queue_names, max_attempts, job_keys, priorities, flags, job_key_modes, extras)
        with ordinality as spec(
          slot, identifier, payload, queue_name, max_attempts, job_key, priority, flags, job_key_mode, extra, ord)
      where spec.ord = any(ords))
    select specs.ords[added.ord], added.outcome, added.id
    from specs cross join lateral asyncq._add_jobs(
      specs.identifiers, specs.payloads, specs.queue_names, specs.slots, specs.max_attempts, specs.job_keys,
      specs.priorities, specs.flags, specs.job_key_modes, specs.metas, specs.extras) as added;
end
$$;
