-- Before a worker rests: let it be on the lookout, unless another one is. Then it has to look for jobs once more: adds that came
-- before told nobody.
--
-- was_out: this session is, and asks again how things are. Returns whether this session is on the lookout; whether all those
-- adds have ended, so that what they did can be seen; and whether the workers are of several kinds, which run other tasks or
-- forbid other flags: then none of them can look for all, nor can one that listens and does not live.

create or replace function asyncq._take_lookout(was_out boolean)
  returns table (is_out boolean, is_quiet boolean, is_mixed boolean)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  held constant int := asyncq._lock_space();
begin
  is_out := was_out;
  is_quiet := false;
  -- An adder that asks at this moment is no lookout; with many of them it may take some tries.
  for try in 1..20 loop
    exit when is_out;
    is_out := pg_try_advisory_lock(held, 0);
    exit when is_out;
    exit when not pg_try_advisory_lock_shared(held, 0);
    perform pg_advisory_unlock_shared(held, 0);
    continue when try < 20;
    -- Nobody is on the lookout, this session neither: it must not rest.
    return next;
    return;
  end loop;
  is_quiet := pg_try_advisory_xact_lock(held, -1);
  is_mixed := (
    select count(distinct (worker.tasks, worker.forbidden_flags)) > 1
      -- Somebody listens who does not live, a process that was stopped: it may be on the lookout still.
      or count(*) filter (where asyncq._is_live(worker)) < (
        select count(*) from pg_stat_activity
        where datname = current_database() and application_name = 'asyncq listen')
    from asyncq._workers as worker);
  return next;
end
$$;
