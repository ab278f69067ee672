-- The queues whose jobs run in batches; a name may come more than once.

create or replace function asyncq._batched_queues() returns setof text
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
  select member.queue
  from asyncq._batches as batch
  cross join lateral unnest(batch.queue) with ordinality as member(queue, ordinal)
  where member.queue is not null and get_bit(batch.unsettled, member.ordinal::int - 1) = 1
  $$;
