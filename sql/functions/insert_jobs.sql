-- Store new jobs, whose tasks are stored already: those with the outcome 'added', or all if there are no outcomes. Parallel
-- arrays as in _add_jobs; ids follow the order of the specs, so that equal jobs run in it.

create or replace function asyncq._insert_jobs(
  identifiers text[], payloads json[], queue_names text[], run_ats timestamptz[], max_attempts int[], job_keys text[],
  priorities int[], flags jsonb[], metas jsonb[], dedupes jsonb[], outcomes text[])
  returns table (ord bigint, id bigint)
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  moment constant timestamptz := asyncq.now();
  stored int;
begin
  return query
    with specs as materialized (
      select nextval('asyncq._jobs_id_seq') as id, ordered.ord, ordered.task_id, ordered.queue, ordered.run_at,
        ordered.payload, ordered.max_attempts, ordered.key, ordered.priority, ordered.flags, ordered.meta, ordered.dedupe
      from (
        select spec.ord, task.id as task_id, spec.queue, coalesce(spec.run_at, moment) as run_at,
          coalesce(spec.payload, '{}') as payload, coalesce(spec.max_attempts, 25) as max_attempts, spec.key,
          coalesce(spec.priority, 0) as priority, spec.flags, spec.meta, spec.dedupe
        from unnest(
          identifiers, payloads, queue_names, run_ats, max_attempts, job_keys, priorities, flags, metas, dedupes,
          outcomes)
          with ordinality as spec(
            identifier, payload, queue, run_at, max_attempts, key, priority, flags, meta, dedupe, outcome, ord)
        cross join lateral (select id from asyncq._tasks where identifier = spec.identifier offset 0) as task
        where spec.outcome is null or spec.outcome = 'added'
        order by spec.ord) as ordered),
    added as (
      insert into asyncq._jobs
        (id, run_at, created_at, updated_at, task_id, priority, max_attempts, queue, key, flags, payload, meta,
          unique_key, keep_until, keep_states)
      select id, run_at, moment, moment, task_id, priority, max_attempts, queue, key, flags, payload, meta,
        decode(dedupe ->> 'key', 'hex'), asyncq._kept_until(dedupe, moment), asyncq._kept_states(dedupe)
      from specs order by ord)
    select specs.ord, specs.id from specs order by specs.ord;
  get diagnostics stored = row_count;
  if stored <> coalesce(cardinality(array_positions(outcomes, 'added')), cardinality(identifiers)) then
    raise exception using errcode = '40001',
      message = 'a task vanished while its job was added; the same call will work';
  end if;
end
$$;
