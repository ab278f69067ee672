-- Give waiting jobs what new adds of their keys say. Parallel arrays as in _add_jobs; of those with the outcome 'updated' the
-- job (by its id) is locked, and its task is stored. What an add leaves out becomes the default; but what an earlier one asked
-- to keep is kept.

create or replace function asyncq._update_jobs(
  identifiers text[], payloads json[], queue_names text[], run_ats timestamptz[], max_attempts int[], priorities int[],
  flags jsonb[], job_key_modes text[], metas jsonb[], extras jsonb[], ids bigint[], outcomes text[]) returns void
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  moment constant timestamptz := asyncq.now();
  updated int;
begin
  update asyncq._jobs as job
    set task_id = task.id, queue = given.queue,
      payload = asyncq._merged_payload(job.payload, coalesce(given.payload, '{}')),
      run_at = case when given.mode = 'preserve_run_at' and job.attempts = 0 then job.run_at
        else coalesce(given.run_at, moment) end,
      max_attempts = asyncq._max_attempts(given.max_attempts), priority = asyncq._priority(given.priority),
      flags = given.flags, meta = given.meta, unique_key = decode(given.extra ->> 'key', 'hex'),
      keep_until = greatest(job.keep_until, asyncq._kept_until(given.extra, job.created_at)),
      keep_states = case when asyncq._kept_states(given.extra) <@ job.keep_states then job.keep_states
        else array_cat(job.keep_states, asyncq._kept_states(given.extra)) end,
      attempts = 0, interruptions = 0, last_error = null, revision = job.revision + 1, updated_at = moment
    from unnest(
      identifiers, payloads, queue_names, run_ats, _update_jobs.max_attempts, priorities, _update_jobs.flags, job_key_modes,
      metas, extras, ids, outcomes)
      as given(identifier, payload, queue, run_at, max_attempts, priority, flags, mode, meta, extra, id, outcome)
    cross join lateral (select id from asyncq._tasks where identifier = given.identifier offset 0) as task
    where given.outcome = 'updated' and job.id = any(array[given.id]);
  get diagnostics updated = row_count;
  if updated <> cardinality(array_positions(outcomes, 'updated')) then
    raise exception using errcode = '40001',
      message = 'a task vanished while its job was updated; the same call will work';
  end if;
end
$$;
