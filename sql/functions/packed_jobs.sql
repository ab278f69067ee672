-- The jobs of batches, as the rows that they stand for: those whose claims stand, or of these only the one with this id.

create or replace function asyncq._packed_jobs(only_id bigint default null) returns setof asyncq._jobs
  language sql stable
  as $$
  select packed.id, packed.run_at, packed.created_at, packed.created_at, batch.locked_at, null::timestamptz, null::timestamptz,
    batch.lock_token, packed.task_id, batch.locked_by, 0, packed.priority, 0::smallint, packed.max_attempts, 0::smallint,
    null::text, null::text, null::jsonb, packed.payload, null::jsonb, null::text, null::bytea, null::text[], null::json
  from asyncq._batches as batch
  cross join lateral unnest(
      batch.ids, batch.run_at, batch.created_at, batch.task_id, batch.priority, batch.max_attempts, batch.payload)
    with ordinality as packed(id, run_at, created_at, task_id, priority, max_attempts, payload, place)
  where (only_id is null or batch.ids operator(pg_catalog.@>) array[only_id] and packed.id = only_id)
    and pg_catalog.get_bit(batch.open, packed.place::int - 1) = 1
  $$;
