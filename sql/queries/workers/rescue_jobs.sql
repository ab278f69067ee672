-- rescue_jobs(thorough boolean, keeps_errors boolean) -> job_id bigint, worker_id int, attempts int2, max_attempts int2, ran boolean
select job_id, worker_id, attempts, max_attempts, ran from asyncq._rescue_jobs($1, $2)
