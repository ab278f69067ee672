-- Split batches, which the caller has locked: from now on each claim of theirs is a row of _jobs, as if it had been
-- claimed in its row. Apart from this, only a good end takes a job out of a batch. Returns the ids of the rows. A row
-- that has the same id stays as it is, as in _end_jobs.
create or replace function asyncq._split_batches(batches tid[]) returns setof bigint
  language sql volatile
  as $$
  with gone as (
    delete from asyncq._batches where ctid = any(batches)
    returning lock_token, locked_at, locked_by, unsettled, ids, run_at, created_at, task_id, priority, max_attempts, partition, queue,
      meta, payload)
  insert into asyncq._jobs
      (id, run_at, created_at, updated_at, locked_at, lock_token, task_id, locked_by, priority, max_attempts, partition, shared, queue,
        meta, payload)
    select batched.id, batched.run_at, batched.created_at, batched.created_at, gone.locked_at, gone.lock_token, batched.task_id,
      gone.locked_by, batched.priority, batched.max_attempts, batched.partition,
      -- As a fetch marks it, or did before the limit was lowered.
      case when batched.queue is not null then (
        select true from asyncq._partitions as held join asyncq._limits as of_all on of_all.id = (held.id >> 48)::smallint
        where held.id = batched.partition and (held.running > 1 or coalesce(held.at_once, of_all.at_once) is distinct from 1)) end,
      batched.queue, batched.meta, batched.payload
    from gone
    cross join lateral unnest(
        gone.ids, gone.run_at, gone.created_at, gone.task_id, gone.priority, gone.max_attempts, gone.partition, gone.queue, gone.meta,
        gone.payload)
      with ordinality as batched(id, run_at, created_at, task_id, priority, max_attempts, partition, queue, meta, payload, ordinal)
    where get_bit(gone.unsettled, batched.ordinal::int - 1) = 1
    order by batched.id
    on conflict (id) do nothing
    returning id
  $$;

-- Split the batch of a claimed job, so that the job is a row. A worker calls this on a connection of its own: in the
-- handler's transaction it would keep the other jobs of the batch from ending. A locked batch stays as it is.
--
--   the claim                                       answer
--   is a row                                        row
--   is in a batch that another transaction locks    locked
--   is gone, or its job was cancelled               gone
create or replace function asyncq._split_batch_of_claim(worker int, job bigint, token bigint) returns text
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  as $$
begin
  perform asyncq._split_batches(array(
    select batch.ctid from asyncq._batches as batch
    where batch.locked_by = worker and batch.lock_token = token and job = any(batch.ids)
    for update skip locked));
  return (select case
    when exists (
      select from asyncq._batches as batch
      where batch.locked_by = worker and batch.lock_token = token
        and get_bit(batch.unsettled, array_position(batch.ids, job) - 1) = 1) then 'locked'
    when exists (
      select from asyncq._jobs as held
      where held.id = job and held.locked_by = worker and held.lock_token = token and held.cancelled_at is null) then 'row'
    else 'gone'
  end);
end
$$;

-- Split batches of a worker, by the tokens of their fetches, except locked ones. Returns the ids of the rows.
create or replace function asyncq._split_batches_of_worker(worker int, tokens bigint[]) returns setof bigint
  language sql volatile
  as $$
  select split.id
  from asyncq._split_batches(array(
    select batch.ctid from asyncq._batches as batch
    where batch.locked_by = worker and batch.lock_token = any(tokens)
    order by batch.lock_token for update skip locked)) as split(id)
  $$;

-- Split the batches that contain one of these jobs; waits for a batch that is being settled, or skips it. At REPEATABLE
-- READ and SERIALIZABLE the caller gets 40001 if a batch has changed since its snapshot.
create or replace function asyncq._split_batches_of_jobs(job_ids bigint[], skips_locked boolean default false) returns void
  language plpgsql volatile
  -- The caller disables scans. These tables have few rows, and a plan with a disabled scan would be compiled.
  set enable_seqscan = on
  set jit = off
  as $$
declare
  wanted constant bigint[] := array(select distinct given.id from unnest(job_ids) as given(id) where given.id is not null order by given.id);
begin
  if skips_locked then
    perform asyncq._split_batches(array(
      select batch.ctid from asyncq._batches as batch
      where exists (
        select from unnest(batch.ids) as batched(id) where wanted[width_bucket(batched.id, wanted)] = batched.id)
      order by batch.locked_by, batch.lock_token for update skip locked));
    return;
  end if;
  perform asyncq._split_batches(array(
    select batch.ctid from asyncq._batches as batch
    where exists (
      select from unnest(batch.ids) as batched(id) where wanted[width_bucket(batched.id, wanted)] = batched.id)
    order by batch.locked_by, batch.lock_token for update));
end
$$;

-- Lock jobs in the order of their ids, until the end of the transaction. Those that are in batches become rows. It
-- waits for other transactions that hold them. While it waits for one job, a fetch may move another one into a batch.
-- Batches are locked before jobs. So the locks of the jobs are undone, with a subtransaction, and all are locked once
-- more. Returns the ids of the rows. At REPEATABLE READ and SERIALIZABLE the caller gets 40001 if one has changed since
-- its snapshot.
create or replace function asyncq._lock_jobs(ids bigint[]) returns bigint[]
  language plpgsql volatile
  as $$
declare
  locked bigint[];
  others bigint[];
begin
  loop
    perform asyncq._split_batches_of_jobs(ids);
    begin
      -- Not in the order of the index: see _lock_key_holders.
      locked := array(select job.id from asyncq._jobs as job where job.id = any(ids) order by job.id + 0 for no key update);
      others := array(select unnest(ids) except select unnest(locked));
      if others = '{}' or not exists (select from asyncq._all_jobs() as job where job.id = any(others)) then
        return locked;
      end if;
      raise exception using errcode = 'GWLCK', message = 'a job has moved';
    exception when sqlstate 'GWLCK' then
      null;
    end;
  end loop;
end
$$;
