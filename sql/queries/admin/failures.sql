-- failures(most int) -> task text, first_line text, jobs bigint, newest timestamptz, job_id bigint
select task, first_line, jobs, newest, job_id from asyncq.failures($1::int)
