-- Record what a worker reports of items that it has read: when each is due next, and of stored ones (those with a revision) why it cannot be
-- scheduled, or its job with the defaults of its task. Parallel arrays. Hints for those who look: what somebody holds is left out,
-- and what was changed since.

create or replace function asyncq._report_cron(
  items text[], revisions bigint[], next_runs timestamptz[], problems text[], jobs jsonb[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  held text[];
begin
  held := array(
    select known.identifier from asyncq.known_crontabs as known
    join unnest(items, next_runs) as given(item, next_run) on given.item = known.identifier
    where known.next_run is distinct from given.next_run
      or exists (select from asyncq._cron_items as stored where stored.identifier = known.identifier)
    order by known.identifier for update of known skip locked);
  update asyncq.known_crontabs as known set next_run = given.next_run
    from unnest(items, revisions, next_runs) as given(item, revision, next_run)
    where known.identifier = given.item and known.identifier = any(held) and known.next_run is distinct from given.next_run
      and (given.revision is null or exists (
        select from asyncq._cron_items as stored where stored.identifier = given.item and stored.revision = given.revision));
  update asyncq._cron_items as stored set problem = given.problem, job = given.job
    from unnest(items, revisions, problems, jobs) as given(item, revision, problem, job)
    where stored.identifier = given.item and stored.identifier = any(held) and stored.revision = given.revision
      and (stored.problem is distinct from given.problem or stored.job is distinct from given.job);
end
$$;
