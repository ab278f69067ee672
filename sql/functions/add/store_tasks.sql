-- Store the names of new tasks, sorted, so that two callers with the same new names never deadlock. A retired name is
-- in use again: its mark is cleared, which waits for a cleanup that is about to remove it.
create or replace function asyncq._store_tasks(identifiers text[]) returns void
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  missing text[];
begin
  select array_agg(given.name order by given.name collate "C") into missing
    from (select distinct name from unnest(identifiers) as listed(name)) as given
    left join lateral (select id, retired_in from asyncq._tasks where identifier = given.name offset 0) as known on true
    where given.name is not null and (known.id is null or known.retired_in is not null);
  if missing is not null then
    insert into asyncq._tasks as task (identifier) select name from unnest(missing) as name
      on conflict (identifier) do update set retired_in = null where task.retired_in is not null;
  end if;
end
$$;

-- The ids of a worker's tasks, which are stored on first use. A name that another open transaction has just stored is
-- left out, since a worker must not wait for that; it asks again. A retired name is in use again: its mark is cleared,
-- unless a cleanup is about to remove it. The function waits for a lock on the whole table, as of a migration.
create or replace function asyncq._task_ids(identifiers text[]) returns table (identifier text, id int)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  missing text;
  patience constant text := current_setting('lock_timeout');
begin
  for missing in
    select distinct given.name collate "C" from unnest(identifiers) as given(name)
    where given.name is not null
      and not exists (select from asyncq._tasks where identifier = given.name and retired_in is null)
    order by 1
  loop
    begin
      perform set_config('lock_timeout', '100ms', true);
      insert into asyncq._tasks (identifier) values (missing) on conflict (identifier) do update set retired_in = null;
    exception when lock_not_available then
      null;
    end;
    perform set_config('lock_timeout', patience, true);
  end loop;
  return query
    select task.identifier, task.id from asyncq._tasks as task
    where task.identifier = any(identifiers) and task.retired_in is null;
end
$$;
