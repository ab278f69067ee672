-- end_transactions() -> worker_id int, job_id bigint
select worker_id, job_id from asyncq._end_transactions()
