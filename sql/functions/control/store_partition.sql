-- Store what was declared for a queue, or set by hand for a partition, as _store_limit does for a limit. The caller has
-- locked the row.
create or replace function asyncq._store_partition(given asyncq._partitions) returns void
  language plpgsql volatile
  as $$
declare
  was asyncq._partitions;
  now_valid asyncq._partitions := jsonb_populate_record(
    given, '{"at_once": null, "rate": null, "per_s": null, "weight": 1}'::jsonb || coalesce(given.declared, '{}')
      || coalesce(given.overrides, '{}'));
begin
  select held.* into was from asyncq._partitions as held where held.id = given.id;
  update asyncq._partitions as held
    set declared = given.declared, overrides = given.overrides, declared_by = given.declared_by, set_at = given.set_at,
      set_by = given.set_by, changed_at = asyncq.clock(), key = given.key, at_once = now_valid.at_once, rate = now_valid.rate,
      per_s = now_valid.per_s, weight = now_valid.weight
    where held.id = given.id;
  if now_valid.per_s is distinct from was.per_s then
    perform asyncq._gather_starts(array[given.id], coalesce(
      now_valid.per_s, (select of_all.per_s from asyncq._limits as of_all where of_all.id = given.id >> 48)));
  end if;
  if (now_valid.at_once, now_valid.rate, now_valid.per_s) is distinct from (was.at_once, was.rate, was.per_s) then
    perform asyncq._wake_heads(array[given.id]);
  end if;
end
$$;
