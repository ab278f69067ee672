-- End the LISTEN connections of workers that were just declared dead. One that is not read, as of a process that was stopped, keeps the
-- notification queue of the whole server from being emptied; when that is full, every NOTIFY fails. A worker that lives after all
-- connects anew. A connection is known by the lock that it holds for its worker, see hold_ear.
-- One of a role that this one may not end is left alone, with a warning.

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
