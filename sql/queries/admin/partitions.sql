-- partitions(limit_name text, most int) -> key text, waiting int, running int, may int, next_at timestamptz, why text
select key, waiting, running, may, next_at, why from asyncq.partitions($1::text, $2::int)
