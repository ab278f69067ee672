-- prune_stats(most int) -> gone bigint
select asyncq._prune_stats($1::int) as gone
