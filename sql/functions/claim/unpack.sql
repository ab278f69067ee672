-- Unpack batches, which the caller has locked: from now on each claim of theirs that stands is a row of _jobs, as if it had been
-- taken by itself. The one way out of a batch but for a good end. Returns the ids of the rows.
-- Where an id is taken meanwhile, as by a sequence that was not brought along to another server, the later job is kept: an error
-- would keep all others from being returned.

create or replace function asyncq._unpack(batches tid[]) returns setof bigint
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
  with gone as (
    delete from asyncq._batches where ctid = any(batches)
    returning lock_token, locked_at, locked_by, open, ids, run_at, created_at, task_id, priority, max_attempts, queue, meta, payload)
  insert into asyncq._jobs
      (id, run_at, created_at, updated_at, locked_at, lock_token, task_id, locked_by, priority, max_attempts, queue, meta, payload)
    select packed.id, packed.run_at, packed.created_at, packed.created_at, gone.locked_at, gone.lock_token, packed.task_id,
      gone.locked_by, packed.priority, packed.max_attempts, packed.queue, packed.meta, packed.payload
    from gone
    cross join lateral unnest(
        gone.ids, gone.run_at, gone.created_at, gone.task_id, gone.priority, gone.max_attempts, gone.queue, gone.meta, gone.payload)
      with ordinality as packed(id, run_at, created_at, task_id, priority, max_attempts, queue, meta, payload, place)
    where get_bit(gone.open, packed.place::int - 1) = 1
    order by packed.id
    on conflict (id) do nothing
    returning id
  $$;
