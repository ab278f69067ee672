-- Remove key locks that were not used for a day, among the next so many behind a key: a walk over all of them, a few at a time, since
-- an index on used_at would cost each add. Locked rows are skipped. An add that needs a row while it is removed waits for this one
-- statement, then inserts the row again.
-- The day is the real clock's, as used_at is. It is also how long a transaction may stay open: one in REPEATABLE READ whose
-- snapshot is older finds no row, and misses the adds that it cannot see.
-- Returns how many were removed, and the last key of the walk; null at its end.

create or replace function asyncq._prune_key_locks(after bigint, most int) returns table (key_locks bigint, last_key bigint)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  as $$
#variable_conflict use_column
declare
  walked bigint[];
  removed bigint;
begin
  walked := array(select key from asyncq._key_locks where key > after order by key limit most);
  delete from asyncq._key_locks where key = any(array(
    select key from asyncq._key_locks
    where key = any(walked) and used_at < pg_catalog.clock_timestamp() - interval '1 day'
    order by key for update skip locked));
  get diagnostics removed = row_count;
  return query select removed, walked[cardinality(walked)];
end
$$;
