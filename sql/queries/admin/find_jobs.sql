-- find_jobs(filter text, from_id bigint, newest bool, most int, look int) -> document text, next_id bigint
select document, next_id from asyncq._find_jobs($1::text::jsonb, $2::bigint, $3::boolean, $4::int, $5::int)
