-- Remove a stored item, or the history of an item that no worker has any more. Its jobs stay. Returns what it was.
-- GWBCN: there is no such item. GWBCS: it is one of a worker's crontab.
create or replace function asyncq.remove_cron_item(identifier text) returns asyncq.cron_item
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_variable
declare
  item asyncq.cron_item;
  is_declared boolean;
begin
  perform asyncq._lock_cron_item(identifier);
  is_declared := asyncq._is_declared(identifier);
  select status.* into item from asyncq._cron_status(array[identifier]) as status;
  delete from asyncq._cron_items as stored where stored.identifier = identifier;
  if found then
    perform asyncq._wake_cron();
  elsif is_declared then
    raise exception using errcode = 'GWBCS',
      message = 'the item ''' || identifier || ''' is in the crontab of a worker: take it out there; it can be paused';
  end if;
  -- If a worker's own item has the same name, the history is that of this item.
  if not is_declared then
    delete from asyncq.known_crontabs as known where known.identifier = identifier;
  end if;
  return item;
end
$$;
