-- The ids of the tasks of a worker, which are stored on first use. A name that another open transaction has just stored is
-- left out: its id is unknown until that transaction ends, and a worker must not wait for it; who misses one asks again. A
-- retired name is in use again: the mark is taken away, unless a cleanup is about to remove it at this moment. A table that is locked
-- as a whole, as by a migration, is waited for: no name could be read.

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
