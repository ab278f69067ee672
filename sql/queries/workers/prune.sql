-- prune(failed_retention_s float8, most int) -> failed bigint, ended bigint, requests bigint
select failed, ended, requests from asyncq._prune($1, $2)
