-- steps(job bigint) -> name text, result text
select name, result::text as result from asyncq._steps where job_id = $1
