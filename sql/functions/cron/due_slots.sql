-- Which slots no transaction has added yet, and may become jobs: see _addable_slots. Parallel arrays, one element a slot, in any order.
-- due are their positions, rising; their items are held until the end of the transaction. busy are positions of items that somebody
-- else holds, one of each: they are left out.
--
-- Whoever comes second waits for the first at the item's row, and then finds its slots taken; or the item paused, changed, removed.
-- A clock that was set back finds nothing due. Lock order: items by identifier, then what _add_jobs locks.

create or replace function asyncq._due_slots(
  crontabs text[], slots timestamptz[], revisions bigint[], out due bigint[], out busy bigint[])
  language plpgsql volatile
  as $$
declare
  -- A look without a lock: most workers come when another one is done.
  open_before constant bigint[] := asyncq._addable_slots(crontabs, slots, revisions);
  others text[];
begin
  due := '{}';
  busy := '{}';
  if open_before = '{}' then
    return;
  end if;
  others := asyncq._lock_crontabs(
    array(select crontabs[one] from unnest(open_before) as one), array(select slots[one] from unnest(open_before) as one),
    array(select revisions[one] from unnest(open_before) as one));
  -- A statement of its own: it sees what the lock was waited for. What was not open before is not held.
  select
      coalesce(array_agg(one order by one) filter (where crontabs[one] <> all(others)), '{}'),
      coalesce(array_agg(one order by one) filter (where crontabs[one] = any(others)), '{}')
    into due, busy
    from unnest(asyncq._addable_slots(crontabs, slots, revisions)) as one where one = any(open_before);
  busy := array(select min(one) from unnest(busy) as one group by crontabs[one] order by 1);
end
$$;
