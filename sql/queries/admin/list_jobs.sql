-- list_jobs(state text, task text, queue text, flag text, after bigint, most int) -> document text
select document from asyncq._list_jobs($1::text, $2::text, $3::text, $4::text, $5::bigint, $6::int) as document
