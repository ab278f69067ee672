-- row_security() -> name text, is_active boolean
-- Our tables that have row level security, and whether it applies to this role; the owner is exempt unless forced.
select relation.relname::text as name, pg_catalog.row_security_active(relation.oid) as is_active
from pg_catalog.pg_class as relation
join pg_catalog.pg_namespace as space on space.oid = relation.relnamespace
where space.nspname = 'asyncq' and relation.relrowsecurity
  and (pg_catalog.starts_with(relation.relname::text, '_') or relation.relname = 'known_crontabs')
order by relation.relname
