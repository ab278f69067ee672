-- The ids of tasks, whose names are stored on first use; sorted, so that two callers with the same new names never deadlock.
-- A retired name is in use again: the mark is taken away, which waits for a cleanup that is about to remove it.

create or replace function asyncq._task_ids(identifiers text[]) returns table (identifier text, id int)
  language plpgsql volatile
  as $$
#variable_conflict use_column
begin
  insert into asyncq._tasks (identifier)
    select distinct given.name from unnest(identifiers) as given(name)
    left join lateral (
      select id from asyncq._tasks where identifier = given.name and retired_in is null offset 0) as known on true
    where given.name is not null and known.id is null
    order by given.name
    on conflict (identifier) do update set retired_in = null;
  return query
    select task.identifier, task.id from asyncq._tasks as task where task.identifier = any(identifiers);
end
$$;
