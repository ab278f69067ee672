-- Split batches, which the caller has locked: from now on each claim of theirs is a row of _jobs, as if it had been claimed in its row.
-- Only a good end takes a job out of a batch otherwise. Returns the ids of the rows.
-- Where an id was given twice, as by a sequence that was not brought along to another server, the later job is kept: an error would
-- keep all others from being returned.

create or replace function asyncq._split_batches(batches tid[]) returns setof bigint
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
  with gone as (
    delete from asyncq._batches where ctid = any(batches)
    returning lock_token, locked_at, locked_by, unsettled, ids, run_at, created_at, task_id, priority, max_attempts, queue, meta, payload)
  insert into asyncq._jobs
      (id, run_at, created_at, updated_at, locked_at, lock_token, task_id, locked_by, priority, max_attempts, queue, meta, payload)
    select batched.id, batched.run_at, batched.created_at, batched.created_at, gone.locked_at, gone.lock_token, batched.task_id,
      gone.locked_by, batched.priority, batched.max_attempts, batched.queue, batched.meta, batched.payload
    from gone
    cross join lateral unnest(
        gone.ids, gone.run_at, gone.created_at, gone.task_id, gone.priority, gone.max_attempts, gone.queue, gone.meta, gone.payload)
      with ordinality as batched(id, run_at, created_at, task_id, priority, max_attempts, queue, meta, payload, ordinal)
    where get_bit(gone.unsettled, batched.ordinal::int - 1) = 1
    order by batched.id
    on conflict (id) do nothing
    returning id
  $$;
