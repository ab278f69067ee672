-- The gate: whoever wants to add or remove under one of these keys waits here for whoever does so now, in one order for all.
-- It writes, and does so in every case: a caller whose snapshot is older than the last add of a key gets 40001.
-- Gates are numbers, so that they are small whatever the keys are; should two keys ever share one, each waits for the other
-- without need. Returns how many there are.

create or replace function asyncq._gate(keys text[]) returns bigint
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  passed bigint;
begin
  insert into asyncq._gate as gate (key)
    select distinct pg_catalog.hashtextextended(given, 0) from unnest(keys) as given order by 1
    on conflict (key) do update set used_at = pg_catalog.clock_timestamp();
  get diagnostics passed = row_count;
  return passed;
end
$$;
