-- Store the result of a step in the transaction of the caller, while its claim exists. The lock keeps the claim from
-- ending before this transaction: statements that end claims skip a locked row, and try again. So the next run of the
-- job reads this step. A claim can leave its batch for a row, and never comes back: the batch is looked at first, and
-- its lock keeps it from being split. Each of the two has a snapshot of its own, which needs READ COMMITTED.
-- Returns whether the step is stored; if not, the claim was lost.
create or replace function asyncq._store_step(worker int, job bigint, token bigint, name text, result text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  -- A caller that holds the job for longer must not keep a cancelled handler from ending.
  set lock_timeout = '10s'
  as $$
begin
  perform from asyncq._batches as batch
    where batch.locked_by = worker and batch.lock_token = token
      and get_bit(batch.unsettled, array_position(batch.ids, job) - 1) = 1
    for key share;
  if not found then
    perform from asyncq._jobs as held
      where held.id = job and held.locked_by = worker and held.lock_token = token
      for key share;
    if not found then
      return false;
    end if;
  end if;
  insert into asyncq._steps (job_id, done_at, name, result) values (job, asyncq.now(), name, result::json);
  return true;
end
$$;
