-- The ids of the tasks that have these names; unlike _task_ids it stores none.

create or replace function asyncq._task_ids_of(identifiers text[]) returns int[]
  language sql stable parallel safe
  as $$ select array(select task.id from asyncq._tasks as task where task.identifier = any(identifiers)) $$;
