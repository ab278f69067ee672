-- administer_jobs(act text, job_ids bigint[], error_message text, run_at text, priority int, attempts int, max_attempts int) -> document text
select document from asyncq._administer_jobs($1, $2::bigint[], $3, ($4::text)::timestamptz, $5::int, $6::int, $7::int)
