-- set_partition(limit_name text, key text, at_once int, rate int, per_s float8, weight float8, by text) -> done void
select asyncq.set_partition($1::text, $2::text, $3::int, $4::int, $5::float8, $6::float8, $7::text) as done
