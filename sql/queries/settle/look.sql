-- look(after_id bigint, most int) -> outcome text, waiter bigint, job_id bigint
select outcome, waiter, job_id from asyncq._look($1, $2)
