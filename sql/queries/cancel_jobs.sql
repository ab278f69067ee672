-- cancel_jobs(job_ids bigint[]) -> id bigint
select id from asyncq.cancel_jobs($1::bigint[])
