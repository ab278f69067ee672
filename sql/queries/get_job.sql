-- get_job(id bigint) -> document text
select asyncq._document(job)::text as document from asyncq._jobs as job where job.id = $1::bigint
