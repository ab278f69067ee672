-- cron_status(items text[]) -> document text, now timestamptz
select pg_catalog.row_to_json(item)::text as document, asyncq.clock() as now from asyncq._cron_status($1::text[]) as item
