-- remove_worker(worker int) -> id int
-- Not one that was declared dead: the rescue of its last claim removes its row. Not while it offers something, has not said that it knows what was taken, or holds a batch: others see to its claims then.
delete from asyncq._workers
where id = $1 and died_at is null and not exists (select from asyncq._offers where worker_id = $1 and token is not null)
  and not exists (select from asyncq._batches where locked_by = $1)
returning id
