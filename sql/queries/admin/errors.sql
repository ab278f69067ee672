-- errors(job_id bigint) -> errors text
select asyncq._errors($1::bigint)::text as errors
