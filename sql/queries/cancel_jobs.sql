-- cancel_jobs(job_ids bigint[]) -> document text
select document from asyncq._cancel_jobs($1::bigint[])
