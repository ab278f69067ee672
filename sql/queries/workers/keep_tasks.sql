-- keep_tasks(kept text) -> id int
-- Store for how many seconds the ended jobs of these tasks are kept (null: they are not), and whether payloads are too.
-- The last worker that registers decides. A row that another transaction locks is skipped: the worker must not wait.
-- Returns the tasks of skipped rows. The worker must not take their jobs yet, since these would not be kept.
with given as materialized (
  select id, keep_s, keeps_payload
  from jsonb_to_recordset($1::text::jsonb) as sent(id int, keep_s float8, keeps_payload boolean)),
changed as materialized (
  select task.id
  from asyncq._tasks as task
  join given on given.id = task.id and (given.keep_s, given.keeps_payload) is distinct from (task.keep_s, task.keeps_payload)),
locked as materialized (
  select task.id from asyncq._tasks as task
  where task.id in (select id from changed) order by task.id for no key update skip locked),
stored as (
  update asyncq._tasks as task set keep_s = given.keep_s, keeps_payload = given.keeps_payload
  from given where given.id = task.id and task.id in (select id from locked)
  returning task.id)
select id from changed where id not in (select id from stored)
