-- note_block(worker int, job bigint, token bigint, error text) -> id bigint
-- Note in a running job that it blocks its worker's event loop, while the worker holds it. A row that another transaction holds is
-- left alone: the heartbeat's connection must not wait, and a transactional task (for key share) must not find its row changed.
with held as (
  select id from asyncq._jobs where id = $2 and locked_by = $1 and lock_token = $3
  for update skip locked)
update asyncq._jobs as job
set last_error = $4
from held
where job.id = held.id
returning job.id
