-- get_job_by_key(key text) -> document text
select asyncq._document(job)::text as document from asyncq._jobs as job where job.key = $1::text
