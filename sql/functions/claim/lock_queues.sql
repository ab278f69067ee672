-- Lock queues for a worker that has locked a job of each: free ones get a row. Returns their names.
--
-- The row is the lock: two transactions cannot store the same name. A fetch passes a queue that it saw free. If another
-- fetch has locked the queue meanwhile for another job, this one leaves its own job alone. But that job stays locked
-- until the transaction ends, and other fetches do not see it: so the worker on call is notified.
--
-- If the other transaction is still open, the insert waits for its end: a commit, some milliseconds. But a fetch whose
-- worker does not read the answer stays open much longer, and must not stop this one. So after a while the names are
-- tried half by half, until the name that waits is alone, and skipped.
create or replace function asyncq._lock_queues(names text[], worker int) returns text[]
  language plpgsql volatile
  set lock_timeout = '5ms'
  set search_path = pg_catalog, pg_temp
  as $$
declare
  held text[];
  half constant int := cardinality(names) / 2;
begin
  begin
    with taken as (
      insert into asyncq._queues (locked_by, name)
        select worker, given.name from unnest(names) as given(name) order by given.name collate "C"
        on conflict do nothing returning name)
    select coalesce(array_agg(taken.name), '{}') into held from taken;
  exception when lock_not_available then
    if half = 0 then
      return '{}';
    end if;
    return asyncq._lock_queues(names[:half], worker) || asyncq._lock_queues(names[half + 1:], worker);
  end;
  if cardinality(held) < cardinality(names) then
    perform asyncq._wake_workers();
  end if;
  return held;
end
$$;
