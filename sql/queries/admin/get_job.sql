-- get_job(id bigint) -> document text
select asyncq._document(job)::text as document from asyncq._jobs as job where job.id = $1::bigint
union all
select asyncq._document(job)::text from asyncq._batched_jobs($1::bigint) as job
