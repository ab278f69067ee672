-- prune_key_locks(after bigint, most int) -> key_locks bigint, last_key bigint
select key_locks, last_key from asyncq._prune_key_locks($1, $2)
