-- Split the batch of a claimed job, so that the job is a row. A worker calls this on a connection of its own: in the handler's
-- transaction it would keep the other jobs of the batch from ending. A batch that another transaction locks is left as it is.
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
