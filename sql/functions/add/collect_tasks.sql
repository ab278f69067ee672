-- Remove the names of tasks that nothing uses, beside adds and workers that look names up at this moment, at no cost to them.
--
-- It takes two calls. The first one retires a name: it marks the row. Whoever looks a retired name up to use it takes the mark
-- away again (_task_ids); a worker looks its names up after its row says that it uses them. So the second call has only to
-- fear transactions that have not seen the mark: those that looked the name up before hold a lock on the table to their end,
-- those that will with an old snapshot hold that. It waits for both, for a while, and leaves the name to the next call if they
-- stay. Then nobody can have the number of a task whose mark is still there: if nothing uses it now, nothing will.
-- Returns how many were removed.

create or replace function asyncq._collect_tasks(keep text[] default null, patience interval default '1 s') returns bigint
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  kept constant text[] := coalesce(array_remove(keep, null), '{}');
  me constant xid8 := pg_current_xact_id();
  until constant timestamptz := pg_catalog.clock_timestamp() + patience;
  retired int[];
  marks xid8[];
  used int[];
  removed bigint := 0;
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception using errcode = '0A000', column = 'tasks',
      message = 'GC_TASK_IDENTIFIERS works at READ COMMITTED only: an old snapshot does not show what uses a name';
  end if;

  select array_agg(task.id), array_agg(task.retired_in) into retired, marks
    from asyncq._tasks as task where task.retired_in < me and task.identifier <> all(kept);
  if retired is not null and asyncq._outlived(marks, until) then
    retired := array(
      select task.id from asyncq._tasks as task
      where task.id = any(retired) and task.retired_in = marks[array_position(retired, task.id)]
      order by task.id for update skip locked);
    -- A statement of its own: it sees all that was waited for.
    used := asyncq._used_tasks();
    delete from asyncq._tasks as task where task.id = any(retired) and task.id <> all(used);
    get diagnostics removed = row_count;
  end if;

  used := asyncq._used_tasks();
  update asyncq._tasks as task set retired_in = me
    where task.id = any(array(
      select unused.id from asyncq._tasks as unused
      where (unused.retired_in is null or unused.retired_in > me) and unused.identifier <> all(kept)
        and unused.id <> all(used)
      order by unused.id for update skip locked));
  return removed;
end
$$;
