-- beat(worker int, locks bool, named text[]) -> job_id bigint, lock_token bigint
-- Prove that the worker lives, and name claims that have started; no row means that it was declared dead meanwhile. Each row
-- names a running job of the worker that was cancelled, which it may not have been told; without any there is one row of nulls.
with beaten as (
  update asyncq._workers
  set last_seen = pg_catalog.clock_timestamp(), doubted_at = null, locks = $2, named = $3
  where id = $1 returning id)
select job.id as job_id, job.lock_token
from beaten
left join asyncq._jobs as job on job.locked_by = $1 and job.cancelled_at is not null
