-- End the LISTEN connections of workers that were just declared dead. A frozen process does not read its connection, and the
-- server cannot trim its notification queue. When the queue is full, every NOTIFY on the server fails. A worker that lives after
-- all connects anew. A connection is found by the lock that it holds for its worker, see lock_listener.
-- A connection that this role may not end gets a warning.

create or replace function asyncq._end_listeners(workers int[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  open record;
begin
  for open in
    select held.pid, worker.id
    from unnest(workers) as worker(id)
    join pg_locks as held on held.objid = (-1 - worker.id)::oid
    where held.locktype = 'advisory' and held.classid = asyncq._lock_space()::oid and held.objsubid = 2
      and held.database = (select oid from pg_database where datname = current_database())
      and held.mode = 'ExclusiveLock' and held.granted and held.pid <> pg_backend_pid()
  loop
    begin
      perform pg_terminate_backend(open.pid);
    exception when insufficient_privilege then
      raise warning using
        message = format('the LISTEN connection of worker %s (server process %s) cannot be ended by role %s',
          open.id, open.pid, current_user),
        detail = sqlerrm, hint = 'Let one role run all workers, or grant pg_signal_backend to their roles.';
    end;
  end loop;
end
$$;
