-- Store partitions that have no row yet, for a fetch that has locked jobs of each; running is parallel to them, and a
-- missing element is 0. So are cell and cells, texts of arrays: the starts that a rate counts. Returns the stored ones.
--
-- If another fetch has stored one meanwhile, this one leaves its own jobs of it alone. But they stay locked until the
-- transaction ends, and other fetches do not see them: so the worker on call is notified.
--
-- If the other transaction is still open, the insert waits for its end: a commit, some milliseconds. But a fetch whose
-- worker does not read the answer stays open much longer, and must not stop this one. So after a while this function
-- inserts one half of the partitions, then the other, and so on, until it has found the one that waits. It skips that
-- one.
create or replace function asyncq._begin_partitions(
  ids bigint[], running int[], keys text[], cell bigint[] default null, cells text[] default null) returns bigint[]
  language plpgsql volatile
  set lock_timeout = '5ms'
  set search_path = pg_catalog, pg_temp
  as $$
declare
  begun bigint[];
  half constant int := cardinality(ids) / 2;
begin
  begin
    with stored as (
      insert into asyncq._partitions (id, running, key, cell, cells)
        select given.id, given.running, given.key, given.cell, given.cells::int[]
        from unnest(ids, running, keys, cell, cells) as given(id, running, key, cell, cells) order by given.id
        on conflict do nothing returning id)
    select coalesce(array_agg(stored.id), '{}') into begun from stored;
  exception when lock_not_available then
    if half = 0 then
      return '{}';
    end if;
    return asyncq._begin_partitions(ids[:half], running[:half], keys[:half], cell[:half], cells[:half])
      || asyncq._begin_partitions(ids[half + 1:], running[half + 1:], keys[half + 1:], cell[half + 1:], cells[half + 1:]);
  end;
  if cardinality(begun) < cardinality(ids) then
    perform asyncq._wake_workers();
  end if;
  return begun;
end
$$;
