-- clock() -> now timestamptz, items bigint
-- items is another number whenever a stored item is another one, or any item began anew: then a worker reads and tells anew.
-- Of each item, not of the latest one: a slower transaction may commit an earlier beginning.
select asyncq.clock() as now, pg_catalog.hashtextextended(
  coalesce((
    select pg_catalog.string_agg(identifier || ' ' || revision, ',' order by identifier collate "C")
    from asyncq._cron_items), '')
  || coalesce((
    select pg_catalog.string_agg(identifier || ' ' || extract(epoch from not_before), ',' order by identifier collate "C")
    from asyncq.known_crontabs), ''), 0) as items
