-- pause_cron_item(identifier text) -> document text, now timestamptz
select pg_catalog.row_to_json(item)::text as document, asyncq.clock() as now from asyncq.pause_cron_item($1::text) as item
