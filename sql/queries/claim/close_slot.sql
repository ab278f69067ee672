-- close_slot(worker int) -> token bigint
-- Close the worker's slot. Returns the token by which a job was claimed since the slot was last opened, whether the job
-- has arrived or not; null if none was. Refused (55P03) while an add is about to fill the slot: its transaction may be
-- stuck, and the worker's fetches would wait too.
with slot as (
  select worker_id, token from asyncq._handoff_slots where worker_id = $1 for no key update nowait),
empty as materialized (
  select ctid from asyncq._batches
  where locked_by = $1 and lock_token = (select token from slot) and ids = '{}' for update nowait),
gone as (
  delete from asyncq._batches where ctid = (select ctid from empty) returning lock_token),
closed as (
  update asyncq._handoff_slots set token = null where worker_id = (select worker_id from slot))
select case when not exists (select from gone) then token end as token from slot
