-- prune_steps(after bigint, most int) -> steps bigint, last_job bigint
select steps, last_job from asyncq._prune_steps($1, $2)
