-- Which slots no transaction has added yet: of each item those that are later than its last one. Parallel arrays, one
-- element a slot, in any order. Returns their positions, rising, and holds the items until the end of the transaction.
--
-- Whoever comes second waits for the first at the item's row, and then finds its slots taken. A clock that was set back
-- finds nothing due. Lock order: items by identifier, then what _add_jobs locks.

create or replace function asyncq._due_slots(crontabs text[], slots timestamptz[]) returns bigint[]
  language plpgsql volatile
  as $$
#variable_conflict use_column
begin
  -- A look without a lock: most workers come when another one is done.
  if not exists (
    select from unnest(crontabs, slots) as given(identifier, slot)
    left join asyncq.known_crontabs as known on known.identifier = given.identifier
    where known.last_execution is null or known.last_execution < given.slot)
  then
    return '{}';
  end if;
  insert into asyncq.known_crontabs (identifier, known_since)
    select given.identifier, min(given.slot) from unnest(crontabs, slots) as given(identifier, slot)
    group by given.identifier order by given.identifier
    on conflict (identifier) do nothing;
  perform from asyncq.known_crontabs where identifier = any(crontabs) order by identifier for update;
  -- A statement of its own: it sees what the lock was waited for.
  return array(
    select min(given.ord) from unnest(crontabs, slots) with ordinality as given(identifier, slot, ord)
    join asyncq.known_crontabs as known on known.identifier = given.identifier
    where known.last_execution is null or known.last_execution < given.slot
    group by given.identifier, given.slot order by 1);
end
$$;
