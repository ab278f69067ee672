-- return_lost(worker int, tokens bigint[]) -> id bigint
-- Claims of fetches whose answer was lost: nobody knows them, their jobs never started, and their worker lives, so that no
-- rescue finds them. Scans the table, after a lost connection only. Rows that another transaction holds are skipped.
with held as materialized (
  select id, queue from asyncq._jobs
  where locked_by = $1 and lock_token = any($2::bigint[])
  order by id for update skip locked),
freed as (
  delete from asyncq._queues
  where name = any(array(select queue from held where queue is not null)) and locked_by = $1)
update asyncq._jobs set locked_by = null, locked_at = null, lock_token = null
where id = any(array(select id from held)) returning id
