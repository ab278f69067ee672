-- The state of recurring items, in the order of their identifiers: of these, or of all (null).
--
-- An item is static if a live worker has it in its crontab, whatever is stored. It is also static if nothing is stored:
-- then its workers are gone. workers are the ids of those that have it in their crontab, or know a stored one's task.
create or replace function asyncq._cron_status(items text[] default null) returns setof asyncq.cron_item
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
  with live as materialized (
    select worker.id, worker.tasks, worker.cron from asyncq._workers as worker
    where worker.cron is not null and asyncq._is_live(worker)),
  declared as materialized (
    select one.key as identifier, array_agg(live.id::text order by live.id) as workers,
      (array_agg(one.value order by live.id desc))[1] - 'job' as definition
    from live cross join lateral jsonb_each(live.cron) as one(key, value)
    where items is null or one.key = any(items)
    group by one.key),
  named as (
    select known.identifier from asyncq.known_crontabs as known where items is null or known.identifier = any(items)
    union select declared.identifier from declared)
  select
    named.identifier,
    case when declared.identifier is null and stored.identifier is not null then 'stored' else 'static' end,
    it.definition ->> 'task',
    it.definition ->> 'expression',
    case when it.definition is not null then coalesce(it.definition ->> 'dialect', 'extended') end,
    case when it.definition is not null then coalesce(it.definition ->> 'tz', 'UTC') end,
    case when it.definition is not null then coalesce(it.definition -> 'payload', '{}')::json end,
    it.definition - '{task,expression,dialect,tz,payload,overlap}'::text[],
    case when it.definition is not null then coalesce(it.definition ->> 'overlap', 'allow') end,
    known.paused_at,
    known.known_since,
    known.last_execution,
    case when known.paused_at is null then known.next_run end,
    case when declared.identifier is null then stored.problem
      when stored.identifier is not null then 'a worker has an item of this identifier in its crontab: the stored one waits' end,
    case when declared.identifier is not null then declared.workers
      else array(
        select live.id::text from live where stored.definition ->> 'task' = any(live.tasks) order by live.id) end
  from named
  left join declared on declared.identifier = named.identifier
  left join asyncq.known_crontabs as known on known.identifier = named.identifier
  left join asyncq._cron_items as stored on stored.identifier = named.identifier
  cross join lateral (select coalesce(declared.definition, stored.definition)) as it(definition)
  order by named.identifier collate "C"
  $$;

-- All recurring items: stored ones, those in the crontabs of live workers, and those of workers that are gone. Of the
-- last ones only the name and the history are known. next_run is what a worker reported last.
create or replace function asyncq.list_cron_items() returns setof asyncq.cron_item
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select status.* from asyncq._cron_status() as status $$;
