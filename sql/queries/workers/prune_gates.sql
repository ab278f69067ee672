-- prune_gates(after bigint, most int) -> gates bigint, last_key bigint
select gates, last_key from asyncq._prune_gates($1, $2)
