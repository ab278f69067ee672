-- remove_worker(worker int) -> id int
-- A worker that was declared dead keeps its row until the rescue of its last claim. So does a worker with a batch, or
-- with a hand-off slot that is open or was filled without reaching the worker: rescues return these claims.
delete from asyncq._workers
where id = $1 and died_at is null and not exists (select from asyncq._handoff_slots where worker_id = $1 and token is not null)
  and not exists (select from asyncq._batches where locked_by = $1)
returning id
