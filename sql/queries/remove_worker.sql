-- remove_worker(worker int) -> id int
-- Not while it offers something, or has not said that it knows what was taken: others see to its claims then.
with silent as (
  select id from asyncq._workers as worker
  where id = $1 and not exists (select from asyncq._offers as offer where offer.worker_id = worker.id and token is not null)),
forgotten as (
  delete from asyncq._offers where worker_id = (select id from silent))
delete from asyncq._workers where id = (select id from silent) returning id
