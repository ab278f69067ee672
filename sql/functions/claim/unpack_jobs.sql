-- Unpack the batches that hold one of these jobs; one that is being settled at this moment is waited for. At REPEATABLE READ
-- and SERIALIZABLE the caller gets 40001 if a batch has changed since its snapshot.

create or replace function asyncq._unpack_jobs(job_ids bigint[]) returns void
  language plpgsql volatile
  -- Its callers shun scans; there are a few rows, and a plan of a scan that is shunned would be compiled.
  set enable_seqscan = on
  set jit = off
  as $$
declare
  wanted constant bigint[] := array(select distinct given.id from unnest(job_ids) as given(id) where given.id is not null order by given.id);
begin
  perform asyncq._unpack(array(
    select batch.ctid from asyncq._batches as batch
    where exists (
      select from unnest(batch.ids) as packed(id) where wanted[width_bucket(packed.id, wanted)] = packed.id)
    order by batch.locked_by, batch.lock_token for update));
end
$$;
