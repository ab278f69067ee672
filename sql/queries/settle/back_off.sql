-- back_off(partition_ids bigint[], delays_s float8[]) -> partition_id bigint, limit_name text, key text, until timestamptz
select partition_id, limit_name, key, until from asyncq._back_off($1, $2)
