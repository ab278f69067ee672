-- Check whether workers have died. A free lock is recorded in its worker's row, and the worker is notified. If only its
-- connection has ended, it proves within the grace that it is alive. This is one short statement. To wait for a lock
-- instead would hold a snapshot, and keep vacuum from its work.
-- Returns the number of workers, the caller's rank among them, and the time for the order of their checks. dead: a
-- worker is dead. grace_left_s: the rest of the grace of the first doubted worker (null without any).
create or replace function asyncq._watch_workers(worker int)
  returns table (workers int, rank int, clock_s float8, dead boolean, grace_left_s float8)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  held_since timestamptz;
  free int[];
begin
  insert into asyncq._server_runs (only_one) select true where not exists (select from asyncq._server_runs)
    on conflict do nothing;
  held_since := asyncq._locks_since();
  -- Shared: two checks at the same moment do not hide a free lock from each other. Held until this statement ends, so
  -- that a worker that takes its lock at this moment fails, and tries again.
  free := array(
    select other.id from (
      select candidate.id from asyncq._workers as candidate
      where candidate.id <> worker and candidate.locks and candidate.doubted_at is null and candidate.died_at is null
        and held_since + candidate.lease < clock_timestamp()
      offset 0) as other
    where pg_try_advisory_xact_lock_shared(asyncq._lock_space(), other.id));
  if cardinality(free) > 0 then
    with doubted as (
      update asyncq._workers set doubted_at = clock_timestamp()
      where id = any(array(
        select row.id from asyncq._workers as row
        where row.id = any(free) and row.locks and row.doubted_at is null and row.died_at is null
        order by row.id for update skip locked))
      returning id)
    select array_agg(id) into free from doubted;
    perform pg_notify('asyncq:cancel', id || ' 0 0') from unnest(free) as id;
  end if;
  return query
    select count(*)::int, (count(*) filter (where other.id < worker))::int, extract(epoch from clock_timestamp())::float8,
      coalesce(bool_or(other.id <> worker and not asyncq._is_live(other)), false),
      extract(epoch from min(other.doubted_at) filter (where other.id <> worker and other.locks and asyncq._is_live(other))
        + asyncq._grace() - clock_timestamp())::float8
    from asyncq._workers as other;
end
$$;
