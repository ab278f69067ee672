-- holders(least_s float8, least_xids int, most int) -> kind text, pid int, name text, owner text, state text, held_s float8, xids int
-- Transactions that keep dead rows of this database from being removed, the oldest first. They have a snapshot or an id
-- of their own, are prepared, or are standbys with feedback or replication slots. They are at least least_s old. If
-- this role does not see their age in seconds, they are at least least_xids transactions old.
select kind, pid, name, owner, state, held_s, xids
from (
  select
    case when backend_type = 'walsender' then 'standby' when state like 'idle in transaction%' then 'idle' else 'transaction' end as kind,
    pid, application_name as name, usename::text as owner, state,
    pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - case when backend_type <> 'walsender' then xact_start end) as held_s,
    greatest(pg_catalog.age(backend_xmin), pg_catalog.age(backend_xid)) as xids
  from pg_catalog.pg_stat_activity
  where (backend_xmin is not null or backend_xid is not null)
    and (datname = pg_catalog.current_database() or datid is null or backend_type = 'walsender')
    and pid <> pg_catalog.pg_backend_pid()
    -- Vacuums ignore each other.
    and backend_type <> 'autovacuum worker'
  union all
  select 'prepared', null, gid, owner::text, null,
    pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - prepared), pg_catalog.age(transaction)
  from pg_catalog.pg_prepared_xacts
  where database = pg_catalog.current_database()
  union all
  -- Also of a standby with feedback that is disconnected. Without a slot a standby is a process above.
  select 'slot', active_pid, slot_name::text, null, case when active then 'active' else 'inactive' end, null, pg_catalog.age(xmin)
  from pg_catalog.pg_replication_slots
  where xmin is not null) as holder
where coalesce(held_s >= $1::float8, xids >= $2::int)
order by xids desc, held_s desc nulls last
limit $3::int
