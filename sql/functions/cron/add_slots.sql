-- Add the jobs of recurring items, each slot once, however many workers call this for the same crontab. The arrays have
-- one element for each slot; run_at is the slot, revisions are as in _addable_slots. Returns a row for each slot that
-- this call added. For each item that could not be added it returns one row with the SQLSTATE and the message. The
-- slots of such an item stay as if no worker had tried.
--
-- First all items are tried together. Only if that fails, each is tried by itself, so that a bad one does not cost the
-- others their slots. The items stay locked, so that two callers cannot wait for each other.
create or replace function asyncq._add_slots(
  crontabs text[], slots timestamptz[], revisions bigint[], identifiers text[], payloads json[], queue_names text[],
  extras jsonb[])
  returns table (ord bigint, outcome text, id bigint, code text, said text)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  due bigint[];
  busy bigint[];
  ords bigint[];
  is_single boolean;
  failure text;
  message text;
begin
  select found.due, found.busy into due, busy from asyncq._due_slots(crontabs, slots, revisions) as found;
  return query
    select one.ord, null::text, null::bigint, '55P03', 'somebody else holds the item: it is being paused or changed, or its slot added'
    from unnest(busy) as one(ord);
  if due = '{}' then
    return;
  end if;
  for ords, is_single in
    select due, false
    union all
    (select array_agg(one.ord order by one.ord), true from unnest(due) as one(ord)
      group by crontabs[one.ord] order by min(one.ord))
  loop
    begin
      -- The rows are complete before the first one is passed on: a failure leaves none behind.
      return query
        select added.ord, added.outcome, added.id, null::text, null::text
        from asyncq._add_due_slots(ords, crontabs, slots, identifiers, payloads, queue_names, extras) as added;
      exit when not is_single;
    exception when others then
      -- Of all items together: the next turns of the loop find out which one it was.
      continue when not is_single;
      get stacked diagnostics failure = returned_sqlstate, message = message_text;
      return query select ords[1], null::text, null::bigint, failure, message;
      if failure = '55P03' then
        -- Another transaction locks a job that this item would change, and perhaps those of many: wait less for them.
        perform set_config('lock_timeout', '50ms', true);
      end if;
    end;
  end loop;
end
$$;

-- Add the jobs of the slots at some positions, and record the slots: both or neither. The caller has locked the items.
create or replace function asyncq._add_due_slots(
  ords bigint[], crontabs text[], slots timestamptz[], identifiers text[], payloads json[], queue_names text[],
  extras jsonb[])
  returns table (ord bigint, outcome text, id bigint)
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  sorted constant bigint[] := array(select one from unnest(ords) as one order by one);
begin
  update asyncq.known_crontabs as known set last_execution = newest.slot
    from (
      select given.identifier, max(given.slot) as slot
      from unnest(crontabs, slots) with ordinality as given(identifier, slot, ord)
      where given.ord = any(ords) group by given.identifier) as newest
    where known.identifier = newest.identifier;
  return query
    select sorted[added.ord], added.outcome, added.id
    from asyncq._add_jobs(array(
      select asyncq._new_job(identifiers[one.ord], payloads[one.ord], queue_names[one.ord], slots[one.ord], extras[one.ord])
      from unnest(sorted) with ordinality as one(ord, place) order by one.place)) as added;
end
$$;

-- Which slots may become jobs (_addable_slots) and were added by no transaction yet. due are their positions, rising;
-- their items are locked until the transaction ends. busy: a position of each item that another transaction locks.
--
-- The second caller waits for the first at the item's row, and then finds its slots added; or the item paused, changed
-- or removed. After a clock was set back nothing is due. Lock order: items by identifier, then the locks of _add_jobs.
create or replace function asyncq._due_slots(
  crontabs text[], slots timestamptz[], revisions bigint[], out due bigint[], out busy bigint[])
  language plpgsql volatile
  as $$
declare
  -- First without a lock: for most workers another one has added all slots.
  addable constant bigint[] := asyncq._addable_slots(crontabs, slots, revisions);
  others text[];
begin
  due := '{}';
  busy := '{}';
  if addable = '{}' then
    return;
  end if;
  others := asyncq._lock_crontabs(
    array(select crontabs[one] from unnest(addable) as one), array(select slots[one] from unnest(addable) as one),
    array(select revisions[one] from unnest(addable) as one));
  -- A statement of its own: its snapshot is newer than the lock. Items without an addable slot before are not locked.
  select
      coalesce(array_agg(one order by one) filter (where crontabs[one] <> all(others)), '{}'),
      coalesce(array_agg(one order by one) filter (where crontabs[one] = any(others)), '{}')
    into due, busy
    from unnest(asyncq._addable_slots(crontabs, slots, revisions)) as one where one = any(addable);
  busy := array(select min(one) from unnest(busy) as one group by crontabs[one] order by 1);
end
$$;

-- Which slots may become jobs at this moment. revisions are those under which stored items were read, null for items of
-- a worker's own crontab. Returns positions, rising.
--
-- An item has those slots that are later than its last one, and not before it was resumed or changed. It has none while
-- it is paused. A stored item has none if it was changed or removed since it was read, or is in a live worker's
-- crontab.
create or replace function asyncq._addable_slots(crontabs text[], slots timestamptz[], revisions bigint[]) returns bigint[]
  language sql volatile
  as $$
  with item as materialized (
    select given.identifier, given.revision
    from (select distinct identifier, revision from unnest(crontabs, revisions) as one(identifier, revision)) as given
    where given.revision is null
      or exists (
        select from asyncq._cron_items as stored
        where stored.identifier = given.identifier and stored.revision = given.revision)
      and not asyncq._is_declared(given.identifier))
  select array(
    select min(given.ord)
    from unnest(crontabs, slots, revisions) with ordinality as given(identifier, slot, revision, ord)
    join item on item.identifier = given.identifier and item.revision is not distinct from given.revision
    left join asyncq.known_crontabs as known on known.identifier = given.identifier
    where (known.last_execution is null or known.last_execution < given.slot)
      and (known.not_before is null or known.not_before <= given.slot)
      and known.paused_at is null
    group by given.identifier, given.slot order by 1)
  $$;

-- Lock recurring items until the end of the transaction, in the order of their identifiers. Unknown ones of workers'
-- own crontabs (revision null) are inserted, each known since its first slot. Returns the items that another
-- transaction locks for longer than the lock timeout: it must not cost the others their slots.
create or replace function asyncq._lock_crontabs(crontabs text[], slots timestamptz[], revisions bigint[]) returns text[]
  language plpgsql volatile
  as $$
declare
  one record;
  held text[];
begin
  -- One after the other, also new ones, so that all transactions lock them in one order.
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
