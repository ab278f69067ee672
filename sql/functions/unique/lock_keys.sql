-- Lock keys until the end of the transaction: callers that add or remove under one key take it one after the other, all in one order.
-- It writes in every case, so that a caller whose snapshot is older than the last add of a key gets 40001.
-- The rows have numbers, so that they are small whatever the keys are; two keys that share a number wait for each other without need.
-- Returns how many there are.

create or replace function asyncq._lock_keys(keys text[]) returns bigint
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  locked bigint;
begin
  insert into asyncq._key_locks as held (key)
    select distinct pg_catalog.hashtextextended(given, 0) from unnest(keys) as given order by 1
    on conflict (key) do update set used_at = pg_catalog.clock_timestamp();
  get diagnostics locked = row_count;
  return locked;
end
$$;
