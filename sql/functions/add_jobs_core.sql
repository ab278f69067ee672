-- The one way in: every add, from SQL or Python, ends here. Parallel arrays, one element a job; null = the default.
-- Ids follow the order of the specs, so that equal jobs run in it. Listeners are told at commit, once a transaction.

create or replace function asyncq._add_jobs(
  identifiers text[], payloads json[], queue_names text[], run_ats timestamptz[], max_attempts int[], job_keys text[],
  priorities int[], flags jsonb[], job_key_modes text[], metas jsonb[])
  returns table (ord bigint, outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile
  -- Planning these statements anew for each call costs more than running them.
  set plan_cache_mode = force_generic_plan
  as $$
#variable_conflict use_column
declare
  moment constant timestamptz := asyncq.now();
  stored int;
begin
  perform asyncq._check_jobs(
    identifiers, payloads, queue_names, run_ats, max_attempts, job_keys, priorities, job_key_modes);
  perform from asyncq._task_ids(identifiers);
  insert into asyncq._queues (name)
    select distinct queue_name from unnest(queue_names) as queue_name
    where queue_name is not null and not exists (select from asyncq._queues where name = queue_name)
    order by queue_name
    on conflict do nothing;
  return query
    with specs as materialized (
      select nextval('asyncq._jobs_id_seq') as id, ordered.ord, ordered.task_id, ordered.queue_id, ordered.run_at,
        ordered.payload, ordered.max_attempts, ordered.priority, ordered.flags, ordered.meta
      from (
        select spec.ord, task.id as task_id, queue.id as queue_id, coalesce(spec.run_at, moment) as run_at,
          coalesce(spec.payload, '{}') as payload, coalesce(spec.max_attempts, 25) as max_attempts,
          coalesce(spec.priority, 0) as priority, spec.flags, spec.meta
        from unnest(identifiers, payloads, queue_names, run_ats, max_attempts, priorities, flags, metas)
          with ordinality as spec(identifier, payload, queue_name, run_at, max_attempts, priority, flags, meta, ord)
        join asyncq._tasks as task on task.identifier = spec.identifier
        left join asyncq._queues as queue on queue.name = spec.queue_name
        order by spec.ord) as ordered),
    added as (
      insert into asyncq._jobs
        (id, run_at, created_at, updated_at, queue_id, task_id, priority, max_attempts, flags, payload, meta)
      select id, run_at, moment, moment, queue_id, task_id, priority, max_attempts, flags, payload, meta
      from specs order by ord)
    select specs.ord, 'added', specs.id, null::bigint, null::text from specs order by specs.ord;
  get diagnostics stored = row_count;
  if stored <> cardinality(identifiers) then
    raise exception using errcode = '40001',
      message = 'a task or queue vanished while its job was added; the same call will work';
  end if;
  -- A worker looks for its next due job at least once a minute by itself: only what is due before that must wake it. The
  -- instant decides, not the start of the transaction, which may be long ago.
  if exists (
    select from unnest(run_ats) as run_at where run_at is null or run_at <= asyncq.clock() + interval '60 s') then
    perform asyncq._wake_workers();
  end if;
end
$$;
