-- The ids of tasks, whose names are stored on first use; sorted, so that two callers with the same new names never deadlock.

create or replace function asyncq._task_ids(identifiers text[]) returns table (identifier text, id int)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
begin
  insert into asyncq._tasks (identifier)
    select distinct given.name from unnest(identifiers) as given(name)
    left join lateral (select id from asyncq._tasks where identifier = given.name offset 0) as known on true
    where given.name is not null and known.id is null
    order by given.name
    on conflict do nothing;
  return query
    select task.identifier, task.id from asyncq._tasks as task where task.identifier = any(identifiers);
end
$$;
