-- withdraw_offer(worker int) -> token bigint
-- The token by which a job was claimed since the last offer, whether its worker has heard of it or not; null if none was. Refused
-- (55P03) while an add is about to take it: its transaction may be stuck, and the worker's fetches would wait too.
with offer as (
  select worker_id, token from asyncq._offers where worker_id = $1 for no key update nowait),
standing as materialized (
  select ctid from asyncq._batches
  where locked_by = $1 and lock_token = (select token from offer) and ids = '{}' for update nowait),
gone as (
  delete from asyncq._batches where ctid = (select ctid from standing) returning lock_token),
withdrawn as (
  update asyncq._offers set token = null where worker_id = (select worker_id from offer))
select case when not exists (select from gone) then token end as token from offer
