-- Store a recurring item: from now on workers that know its task add its jobs. options is an object; any other member
-- than these is an error, a missing or null one has its default:
--   dialect           extended (the default), or crontab: the fields of graphile-worker alone
--   tz                the IANA zone of the expression; UTC by default
--   fill              how far back missed slots are added: seconds, or a text such as 3d12h; not at all by default
--   overlap           what happens to a slot while a job of the item waits or runs: allow (the default), skip or replace
--   queue, max_attempts, priority, flags, job_key, job_key_mode   as in an add; its task's by default
-- Workers report in problem what only they can see: a bad expression, a payload that its task refuses.
-- GWBCX: it is stored already. GWBCS: a live worker has an item of this identifier in its crontab.
create or replace function asyncq.add_cron_item(
  identifier text, task_identifier text, expression text, payload json default null, options jsonb default null)
  returns asyncq.cron_item
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  own text;
begin
  select member into own from unnest(array['task', 'expression', 'payload']) as member
    where jsonb_typeof(options) = 'object' and options ? member limit 1;
  if own is not null then
    raise exception using errcode = '22023', column = 'options',
      message = 'options have no member ''' || own || ''': it is an argument of its own';
  end if;
  perform asyncq._add_cron_item(
    identifier,
    asyncq._cron_definition(
      jsonb_build_object('task', task_identifier, 'expression', expression, 'payload', payload::jsonb), options),
    null);
  return (select status from asyncq._cron_status(array[identifier]) as status);
end
$$;

-- Store a new recurring item: not paused, and slots before now are never added. Waits for another transaction that adds
-- the same item. job is what is known of its task, null for nothing.
create or replace function asyncq._add_cron_item(item text, definition jsonb, job jsonb) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_variable
begin
  perform asyncq._check_cron_item(item, definition);
  insert into asyncq.known_crontabs as known (identifier, known_since) values (item, asyncq.clock())
    on conflict (identifier) do update set identifier = known.identifier;
  if exists (select from asyncq._cron_items as stored where stored.identifier = item) then
    raise exception using errcode = 'GWBCX', message = 'there is a stored item ''' || item || ''' already; it can be changed';
  elsif asyncq._is_declared(item) then
    raise exception using errcode = 'GWBCS',
      message = 'the item ''' || item || ''' is in the crontab of a worker; choose another identifier';
  end if;
  -- The instant after the lock: slots that were added before are in the past.
  update asyncq.known_crontabs as known
    set known_since = asyncq.clock(), not_before = asyncq.clock(), paused_at = null, next_run = null
    where known.identifier = item;
  insert into asyncq._cron_items (identifier, updated_at, revision, definition, job)
    values (item, asyncq.clock(), hashtextextended(definition::text, 0), definition, job);
  perform asyncq._wake_cron();
end
$$;
