-- clock() -> now timestamptz, items bigint
-- items changes whenever a stored item does: then a worker reads them anew.
select asyncq.clock() as now, (
  select coalesce(pg_catalog.hashtextextended(
    pg_catalog.string_agg(identifier || ' ' || revision || ' ' || extract(epoch from updated_at), ',' order by identifier collate "C"), 0), 0)
  from asyncq._cron_items) as items
