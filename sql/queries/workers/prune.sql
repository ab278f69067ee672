-- prune(discarded_retention_s float8, most int) -> discarded bigint, ended bigint, requests bigint
select discarded, ended, requests from asyncq._prune($1, $2)
