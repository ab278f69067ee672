-- Split the batches that hold one of these jobs; one that is being settled at this moment is waited for. At REPEATABLE READ
-- and SERIALIZABLE the caller gets 40001 if a batch has changed since its snapshot.

create or replace function asyncq._split_batches_of_jobs(job_ids bigint[]) returns void
  language plpgsql volatile
  -- Its callers shun scans; there are a few rows, and a plan of a scan that is shunned would be compiled.
  set enable_seqscan = on
  set jit = off
  as $$
declare
  wanted constant bigint[] := array(select distinct given.id from unnest(job_ids) as given(id) where given.id is not null order by given.id);
begin
  perform asyncq._split_batches(array(
    select batch.ctid from asyncq._batches as batch
    where exists (
      select from unnest(batch.ids) as batched(id) where wanted[width_bucket(batched.id, wanted)] = batched.id)
    order by batch.locked_by, batch.lock_token for update));
end
$$;
