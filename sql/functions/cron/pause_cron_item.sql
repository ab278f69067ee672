-- Pause a recurring item, stored or not: from the commit on no slot of it becomes a job until it is resumed, even if
-- workers restart. Waits for a slot that is being added at this moment. GWBCN: there is no such item.
create or replace function asyncq.pause_cron_item(identifier text) returns asyncq.cron_item
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_variable
begin
  perform asyncq._lock_cron_item(identifier);
  update asyncq.known_crontabs as known set paused_at = asyncq.clock()
    where known.identifier = identifier and known.paused_at is null;
  return (select status from asyncq._cron_status(array[identifier]) as status);
end
$$;

-- Resume a recurring item: slots of the pause are never added. GWBCN: there is no such item.
create or replace function asyncq.resume_cron_item(identifier text) returns asyncq.cron_item
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_variable
begin
  perform asyncq._lock_cron_item(identifier);
  update asyncq.known_crontabs as known set paused_at = null, not_before = asyncq.clock(), next_run = null
    where known.identifier = identifier and known.paused_at is not null;
  if found then
    -- Its workers report when it is due next.
    perform asyncq._wake_cron();
  end if;
  return (select status from asyncq._cron_status(array[identifier]) as status);
end
$$;
