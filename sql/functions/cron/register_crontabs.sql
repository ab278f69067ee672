-- Make items of a worker's own crontab known. Returns one row for each of them and of the stored ones. A row has the
-- time since when the item is known, its last slot that became a job, and the time before which no slots are added. A
-- stored item that is not known was removed meanwhile. The second statement sees what the first one waited for.
create or replace function asyncq._register_crontabs(identifiers text[], stored text[] default '{}')
  returns table (identifier text, known_since timestamptz, last_execution timestamptz, not_before timestamptz)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
begin
  insert into asyncq.known_crontabs (identifier, known_since)
    select distinct given.identifier collate "C", asyncq.now() from unnest(identifiers) as given(identifier)
    where not exists (select from asyncq.known_crontabs as known where known.identifier = given.identifier)
    order by 1
    on conflict (identifier) do nothing;
  return query
    select known.identifier, known.known_since, known.last_execution, known.not_before
    from asyncq.known_crontabs as known where known.identifier = any(identifiers || stored) order by known.identifier;
end
$$;

-- Record what a worker reports of items that it has read. Each item has the time when it is due next. A stored item
-- (with a revision) also has the reason why it cannot be scheduled, or its job with the defaults of its task. These are
-- hints for readers: items that another transaction locks, or that were changed since, are left out.
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
