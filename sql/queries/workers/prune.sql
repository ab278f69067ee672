-- prune(discarded_retention_s float8, error_retention_s float8, most int) -> discarded bigint, ended bigint, requests bigint, attempts bigint
select discarded, ended, requests, attempts from asyncq._prune($1, $2, $3)
