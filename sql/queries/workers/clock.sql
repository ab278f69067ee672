-- clock() -> now timestamptz, items bigint
-- items changes whenever a stored item changes, or any item is resumed or stored again: then a worker reads the items
-- and reports them. It covers each item, not only the latest: a slower transaction may commit an earlier not_before.
select asyncq.clock() as now, pg_catalog.hashtextextended(
  coalesce((
    select pg_catalog.string_agg(identifier || ' ' || revision, ',' order by identifier collate "C")
    from asyncq._cron_items), '')
  || coalesce((
    select pg_catalog.string_agg(identifier || ' ' || extract(epoch from not_before), ',' order by identifier collate "C")
    from asyncq.known_crontabs), ''), 0) as items
