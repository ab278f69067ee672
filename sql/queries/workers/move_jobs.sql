-- move_jobs(after_id bigint, most int) -> found bigint, last_id bigint, horizon bigint
select found, last_id, horizon from asyncq._move_jobs($1, $2)
