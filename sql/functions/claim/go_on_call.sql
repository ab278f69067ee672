-- Put a worker on call before it sleeps, unless another one is on call. Then it has to fetch once more, since earlier
-- adds notified no worker. was_mine: this session is on call already, and only reads the state. Returns whether:
--   is_mine        this session is on call
--   adds_settled   all adds that notified no worker have ended, so that their jobs can be seen
--   is_mixed       no worker can fetch for all: they differ in tasks or flags, or a process without a live worker listens
create or replace function asyncq._go_on_call(was_mine boolean)
  returns table (is_mine boolean, adds_settled boolean, is_mixed boolean)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  held constant int := asyncq._lock_space();
begin
  is_mine := was_mine;
  adds_settled := false;
  -- An add that checks at this moment holds the lock too, but is not on call. With many adds it may take some tries.
  for try in 1..20 loop
    exit when is_mine;
    is_mine := pg_try_advisory_lock(held, 0);
    exit when is_mine;
    exit when not pg_try_advisory_lock_shared(held, 0);
    perform pg_advisory_unlock_shared(held, 0);
    continue when try < 20;
    -- No worker is on call, nor is this session: it must not sleep.
    return next;
    return;
  end loop;
  adds_settled := pg_try_advisory_xact_lock(held, -1);
  is_mixed := (
    select count(distinct (worker.tasks, worker.forbidden_flags)) > 1
      -- A process listens whose worker is not alive, as when it was stopped: it may still be on call.
      or count(*) filter (where asyncq._is_live(worker)) < (
        select count(*) from pg_stat_activity
        where datname = current_database() and application_name = 'asyncq listen')
    from asyncq._workers as worker);
  return next;
end
$$;

-- End this session's turn on call, if it has it. notify_all: notify all workers, so that another one goes on call.
create or replace function asyncq._leave_on_call(was_mine boolean, notify_all boolean) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
begin
  if was_mine then
    perform pg_advisory_unlock(asyncq._lock_space(), 0);
  end if;
  if notify_all and (select count(*) > 1 from asyncq._workers) then
    perform pg_notify('asyncq:jobs', 'all');
  end if;
end
$$;
