-- Hold recurring items until the end of the transaction, in the order of their identifiers. Those of workers' own crontabs (revision
-- null) become known if they are not; each of them since its first slot. Returns those that somebody else holds for longer than a
-- statement waits for a lock: who pauses an item in a transaction that stays open must not cost the others their slots.

create or replace function asyncq._lock_crontabs(crontabs text[], slots timestamptz[], revisions bigint[]) returns text[]
  language plpgsql volatile
  as $$
declare
  one record;
  held text[];
begin
  -- One after the other, also those that are not known yet: who holds a later one never waits for an earlier one.
  for one in
    select given.identifier, min(given.slot) as since, bool_or(given.revision is null) as is_own
    from unnest(crontabs, slots, revisions) as given(identifier, slot, revision)
    group by given.identifier order by given.identifier collate "C"
  loop
    perform from asyncq.known_crontabs where identifier = one.identifier for update;
    if not found and one.is_own then
      insert into asyncq.known_crontabs as known (identifier, known_since) values (one.identifier, one.since)
        on conflict (identifier) do update set identifier = known.identifier;
    end if;
  end loop;
  return '{}';
exception when lock_not_available or deadlock_detected then
  held := array(
    select identifier from asyncq.known_crontabs where identifier = any(crontabs) order by identifier
    for update skip locked);
  return array(select distinct given.identifier from unnest(crontabs) as given(identifier) where given.identifier <> all(held));
end
$$;
