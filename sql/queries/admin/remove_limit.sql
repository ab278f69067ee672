-- remove_limit(name text) -> done void
select asyncq.remove_limit($1::text) as done
