-- Which slots may still become jobs, as things are at this moment. Parallel arrays, one element a slot, in any order; revisions are
-- those under which stored items were read, null for items of a worker's own crontab. Returns positions, rising.
--
-- Of each item those that are later than its last one, not before it was resumed or changed, and none while it is paused. Of a
-- stored item none if it was changed or removed since it was read, or if a live worker has an item of this name in its crontab.

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
