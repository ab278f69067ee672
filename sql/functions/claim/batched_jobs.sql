-- The unsettled jobs of batches, as rows of _jobs; with an id only that job. A row is filled field by field, so that a
-- new column of _jobs needs no change here.
create or replace function asyncq._batched_jobs(only_id bigint default null) returns setof asyncq._jobs
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = on
  set jit = off
  as $$
#variable_conflict use_column
declare
  job asyncq._jobs;
begin
  job.revision := 0;
  job.attempts := 0;
  job.interruptions := 0;
  for job.lock_token, job.locked_at, job.locked_by, job.id, job.run_at, job.created_at, job.updated_at, job.task_id, job.priority,
    job.max_attempts, job.partition, job.queue, job.meta, job.payload in
    select batch.lock_token, batch.locked_at, batch.locked_by, member.id, member.run_at, member.created_at, member.created_at,
      member.task_id, member.priority, member.max_attempts, member.partition, member.queue, member.meta, member.payload
    from asyncq._batches as batch
    cross join lateral unnest(
        batch.ids, batch.run_at, batch.created_at, batch.task_id, batch.priority, batch.max_attempts, batch.partition, batch.queue,
        batch.meta, batch.payload)
      with ordinality as member(id, run_at, created_at, task_id, priority, max_attempts, partition, queue, meta, payload, ordinal)
    where (only_id is null or batch.ids @> array[only_id] and member.id = only_id)
      and get_bit(batch.unsettled, member.ordinal::int - 1) = 1
  loop
    return next job;
  end loop;
end
$$;

-- All jobs that have not ended, including those of batches. It is inlined, so that the indexes of _jobs are used.
create or replace function asyncq._all_jobs() returns setof asyncq._jobs
  language sql stable
  as $$
  select job.* from asyncq._jobs as job
  union all
  select batched.* from asyncq._batched_jobs() as batched
  $$;
