-- dead_rows() -> name text, live bigint, dead bigint, vacuumed_at timestamptz
-- The rows of each table as the server has counted them, the table with the most dead rows first.
select relname::text as name, n_live_tup as live, n_dead_tup as dead, greatest(last_vacuum, last_autovacuum) as vacuumed_at
from pg_catalog.pg_stat_user_tables
where schemaname = 'asyncq'
order by n_dead_tup desc, relname
