-- Of the tasks that a worker knows those whose jobs have no partition: they have no limit, which a paused task has too.
-- None while everything is paused.
create or replace function asyncq._plain_tasks(task_ids int[]) returns int[]
  language plpgsql stable
  as $$
begin
  if exists (select from asyncq._limits as everything where everything.id = 0 and everything.paused_at is not null) then
    return '{}';
  elsif not exists (select from asyncq._tasks as task where task.limit_id is not null) then
    return task_ids;
  end if;
  return array(
    select known.id from pg_catalog.unnest(task_ids) as known(id)
    where known.id not in (select task.id from asyncq._tasks as task where task.limit_id is not null));
end
$$;
