-- remove_job(job_key text) -> document text
select document from asyncq._remove_job($1::text)
