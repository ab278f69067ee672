-- change_history(act text, job_ids bigint[]) -> id bigint
select id from asyncq.remove_ended_jobs($2::bigint[]) as id where $1::text = 'remove'
union all
select id from asyncq.redact_ended_jobs($2::bigint[]) as id where $1::text = 'redact'
