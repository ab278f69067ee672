-- remove_worker(worker int) -> id int
-- A worker that was declared dead keeps its row until the rescue of its last claim. So does a worker with a batch, or with an
-- offer that is open or was taken without the worker's answer: rescues return these claims.
delete from asyncq._workers
where id = $1 and died_at is null and not exists (select from asyncq._offers where worker_id = $1 and token is not null)
  and not exists (select from asyncq._batches where locked_by = $1)
returning id
