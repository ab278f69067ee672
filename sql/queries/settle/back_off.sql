-- back_off(worker int, job_ids bigint[], tokens bigint[], delays_s float8[]) -> job_id bigint, partition_id bigint, limit_name text, key text, until timestamptz
select job_id, partition_id, limit_name, key, until from asyncq._back_off($1, $2, $3, $4)
