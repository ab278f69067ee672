-- Hold recurring items until the end of the transaction, in the order of their identifiers. Those of workers' own crontabs (revision
-- null) become known if they are not; each of them since its first slot. Returns those that somebody else holds for longer than a
-- statement waits for a lock: who pauses an item in a transaction that stays open must not cost the others their slots.

create or replace function asyncq._hold_crontabs(crontabs text[], slots timestamptz[], revisions bigint[]) returns text[]
  language plpgsql volatile
  as $$
declare
  held text[];
begin
  loop
    insert into asyncq.known_crontabs (identifier, known_since)
      select given.identifier, min(given.slot) from unnest(crontabs, slots, revisions) as given(identifier, slot, revision)
      where given.revision is null
      group by given.identifier order by given.identifier
      on conflict (identifier) do nothing;
    perform from asyncq.known_crontabs where identifier = any(crontabs) order by identifier for update;
    -- One that was there for the insert may have been removed before it was locked.
    exit when not exists (
      select from unnest(crontabs, revisions) as given(identifier, revision)
      where given.revision is null
        and not exists (select from asyncq.known_crontabs as known where known.identifier = given.identifier));
  end loop;
  return '{}';
exception when lock_not_available or deadlock_detected then
  held := array(
    select identifier from asyncq.known_crontabs where identifier = any(crontabs) order by identifier
    for update skip locked);
  return array(select distinct given.identifier from unnest(crontabs) as given(identifier) where given.identifier <> all(held));
end
$$;
