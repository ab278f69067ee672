-- Store a recurring item. It is a new one: not paused, and what was due before now is never made up for. Who adds the same at this
-- moment is waited for. job is what is known of its task, null for nothing.

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
  -- The instant after the lock: whatever was added before is done with.
  update asyncq.known_crontabs as known
    set known_since = asyncq.clock(), not_before = asyncq.clock(), paused_at = null, next_run = null
    where known.identifier = item;
  insert into asyncq._cron_items (identifier, updated_at, revision, definition, job)
    values (item, asyncq.clock(), hashtextextended(definition::text, 0), definition, job);
  perform asyncq._wake_cron();
end
$$;
