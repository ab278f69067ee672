-- withdraw_offer(worker int) -> token bigint
-- The token by which a job was claimed since the last offer, whether its worker has heard of it or not; null if none was. Refused
-- (55P03) while an add is about to take it: its transaction may be stuck, and the worker's fetches would wait too.
with offer as (
  select worker_id, case when job_id is not null then token end as token
  from asyncq._offers where worker_id = $1 for no key update nowait),
withdrawn as (
  update asyncq._offers set token = null, job_id = null where worker_id = (select worker_id from offer))
select token from offer
