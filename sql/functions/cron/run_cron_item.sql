-- Add the job of a recurring item now, paused or not; no slot is used up. Returns the added job, or the existing job
-- that fulfils the request: with an overlap other than allow, or a unique policy of its task. If the policy rejects the
-- job, the error is GWBDJ, whose detail is the id and state of the other job as JSON. GWBCN: there is no such item.
create or replace function asyncq.run_cron_item(identifier text) returns asyncq.jobs
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  done record;
begin
  select added.* into strict done from asyncq._run_cron_item(identifier) as added;
  return asyncq._added_job(done.outcome, done.id, done.existing_id, done.existing_state, null);
end
$$;

-- The work of run_cron_item. A worker's own item is added as the worker declared it. A stored one is added with the
-- defaults of its task, which are unknown before a worker has reported them.
create or replace function asyncq._run_cron_item(item text)
  returns table (outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  it jsonb;
  payload text;
  task text;
begin
  select worker.cron -> item into it from asyncq._workers as worker
    where worker.cron ? item and asyncq._is_live(worker) order by worker.id desc limit 1;
  if not found then
    select stored.definition || jsonb_build_object('job', stored.job) into it
      from asyncq._cron_items as stored where stored.identifier = item;
  end if;
  if it is null then
    raise exception using errcode = 'GWBCN',
      message = 'there is no recurring item ''' || coalesce(item, 'null') || ''' that is stored, or in the crontab of a live worker';
  end if;
  task := it ->> 'task';
  -- _cron comes last, as in the job of every slot.
  payload := (coalesce(it -> 'payload', '{}') - '_cron')::text;
  payload := left(payload, -1) || case payload when '{}' then '' else ', ' end || '"_cron": ' || jsonb_build_object(
    'ts', to_char(asyncq.clock() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'backfilled', false) || '}';
  if jsonb_typeof(it -> 'job') = 'object' then
    it := it || (it -> 'job');
  end if;
  return query
    select added.outcome, added.id, added.existing_id, added.existing_state
    from asyncq._add_jobs(array[asyncq._new_job(
      task, payload::json, it ->> 'queue', null,
      coalesce(asyncq._extra(it -> 'options', task, it ->> 'queue', payload::json, it ->> 'job_key'), '{}')
        || coalesce(asyncq._overlap(item, it ->> 'overlap'), '{}'),
      (it ->> 'max_attempts')::int, it ->> 'job_key', (it ->> 'priority')::int,
      asyncq._flags(array(select jsonb_array_elements_text(it -> 'flags'))), it ->> 'job_key_mode')]) as added;
end
$$;

-- The record of options for the overlap of an item; null for none. asyncq/domain/cron/overlap.py has the same rule.
create or replace function asyncq._overlap(item text, overlap text) returns jsonb
  language sql stable
  as $$
  select jsonb_build_object(
    'unique_key', sha256(convert_to('cron ' || item, 'UTF8')),
    'on_conflict', case overlap when 'skip' then 'ignore' else overlap end)
  where overlap in ('skip', 'replace')
  $$;
