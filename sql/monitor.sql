-- Rights of the monitor role: it reads numbers, and sees no payload, meta or key, and of an error the first line only.
-- For dashboards and autoscalers. The owner of the schema runs this, as often as it likes, by one of
--
--   asyncq roles --monitor app_monitor --apply
--   psql -v ON_ERROR_STOP=1 -v monitor=app_monitor -f monitor.sql
--
-- A role that is missing is created, without the right to log in. First all its rights in the schema are revoked.

begin;
set local search_path = pg_catalog, pg_temp;
set local asyncq_roles.monitor = :'monitor';

do $$
declare
  owner oid := (select nspowner from pg_namespace where nspname = 'asyncq');
  monitor constant name := current_setting('asyncq_roles.monitor');
begin
  if owner is null then
    raise exception using errcode = '3F000', message = 'schema "asyncq" does not exist';
  elsif not pg_has_role(owner, 'usage') then
    raise exception using errcode = '42501',
      message = format('only the owner of schema asyncq, %s, can say who may use it', owner::regrole);
  elsif monitor = 'public' then
    raise exception using errcode = '22023', message = 'public is no role, but everybody';
  end if;
  perform pg_advisory_xact_lock(hashtextextended('asyncq:migrate', 0));
  if not exists (select from pg_roles where rolname = monitor) then
    execute format('create role %I', monitor);
  end if;
  -- It is a mistake to revoke the rights of the owner, or of a role that has more to do.
  if pg_has_role(monitor, owner, 'usage')
    or has_function_privilege(monitor, 'asyncq._add_jobs(asyncq._new_job[])', 'execute')
    or has_function_privilege(monitor, 'asyncq.enqueue(json)', 'execute')
  then
    raise exception using errcode = '22023',
      message = format('role %I owns the schema, or runs or adds jobs: choose another one', monitor);
  end if;
end
$$;

revoke all on schema asyncq from :"monitor";
revoke all on all tables in schema asyncq from :"monitor";
revoke all on all sequences in schema asyncq from :"monitor";
revoke all on all routines in schema asyncq from :"monitor";

grant usage on schema asyncq to :"monitor";
grant select on asyncq.known_crontabs to :"monitor";
grant execute on function
  asyncq.backlog, asyncq.counts, asyncq.depths, asyncq.depths_by, asyncq.explain, asyncq.failed_jobs, asyncq.failures,
  asyncq.oldest_due, asyncq.quantile, asyncq.running, asyncq.stats, asyncq.workers
  to :"monitor";

commit;
