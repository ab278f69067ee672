-- prune_partitions(after bigint, most int) -> last_id bigint
select asyncq._prune_partitions($1, $2) as last_id
