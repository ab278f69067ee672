-- Let no job of these partitions start for so many seconds from now; a longer wait that was asked for before stays.
-- It waits for a fetch that holds a partition: 55P03 after a second.
-- Returns until when, with the names that people know.
create or replace function asyncq._back_off(partition_ids bigint[], delays_s float8[])
  returns table (partition_id bigint, limit_name text, key text, until timestamptz)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set lock_timeout = '1s'
  as $$
begin
  perform from asyncq._partitions as held where held.id = any(partition_ids) order by held.id for no key update;
  return query
    update asyncq._partitions as held
    set not_before = greatest(held.not_before, asyncq.now() + make_interval(secs => given.delay_s))
    from (select asked.id, max(asked.delay_s) as delay_s from unnest(partition_ids, delays_s) as asked(id, delay_s) group by asked.id) as given
    where held.id = any(array[given.id])
    returning held.id, (select of_all.name from asyncq._limits as of_all where of_all.id = (held.id >> 48)::smallint), held.key, held.not_before;
end
$$;
