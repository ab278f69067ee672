-- The ids of tasks, whose names are stored on first use; sorted, so that two callers with the same new names never deadlock.

create or replace function asyncq._task_ids(identifiers text[]) returns table (identifier text, id int)
  language plpgsql volatile
  as $$
#variable_conflict use_column
begin
  insert into asyncq._tasks (identifier)
    select distinct name from unnest(identifiers) as name
    where name is not null and not exists (select from asyncq._tasks where identifier = name)
    order by name
    on conflict do nothing;
  return query
    select task.identifier, task.id from asyncq._tasks as task where task.identifier = any(identifiers);
end
$$;
