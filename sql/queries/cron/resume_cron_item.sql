-- resume_cron_item(identifier text) -> document text, now text
select pg_catalog.row_to_json(item)::text as document, pg_catalog.to_json(asyncq.clock())::text as now
from asyncq.resume_cron_item($1::text) as item
