-- beat(worker int, locks bool, started_claims text[], stuck text) -> job_id bigint, lock_token bigint
-- Prove that the worker is alive, and list claims that have started and jobs that are stuck. No row: the worker was
-- declared dead, although its row may still exist. Each row names a running job of the worker that was cancelled, since
-- its notification may be lost; without any there is one row of nulls. stuck is the text of an array: for an array the
-- driver would query the catalog.
with beaten as (
  update asyncq._workers
  set last_seen = pg_catalog.clock_timestamp(), doubted_at = null, locks = $2, started_claims = $3, stuck = $4::text::bigint[]
  where id = $1 and died_at is null returning id)
select job.id as job_id, job.lock_token
from beaten
left join asyncq._jobs as job on job.locked_by = $1 and job.cancelled_at is not null
