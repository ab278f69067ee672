-- Wait until every transaction that may not have seen these marks, of transactions that have ended, is over: whoever holds a
-- lock on _tasks now, and whoever reads with a snapshot that is older than a mark. Returns false if that takes too long.

create or replace function asyncq._outlived(marks xid8[], until timestamptz) returns boolean
  language plpgsql volatile
  as $$
declare
  newest constant xid8 := (select max(mark::text::numeric)::text::xid8 from unnest(marks) as mark);
  holders constant text[] := array(
    select distinct held.virtualtransaction from pg_catalog.pg_locks as held
    where held.locktype = 'relation' and held.relation = 'asyncq._tasks'::regclass
      and held.database = (select oid from pg_catalog.pg_database where datname = current_database())
      and held.pid is distinct from pg_backend_pid());
begin
  loop
    perform pg_stat_clear_snapshot();
    if not exists (select from pg_catalog.pg_locks as held where held.virtualtransaction = any(holders))
      and not exists (
        select from pg_catalog.pg_stat_activity as reader
        where reader.datname = current_database() and reader.pid <> pg_backend_pid()
          and age(reader.backend_xmin) >= age(newest::xid))
    then
      return true;
    end if;
    if pg_catalog.clock_timestamp() > until then
      return false;
    end if;
    perform pg_sleep(0.01);
  end loop;
end
$$;
