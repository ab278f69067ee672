-- Change a stored item. changes is an object of the members to change: task, expression, payload, and the options of
-- add_cron_item; null restores the default. The item keeps its history and its pause; slots before now are not added.
-- GWBCN: there is no such item. GWBCS: it is one of a worker's crontab.
create or replace function asyncq.change_cron_item(identifier text, changes jsonb) returns asyncq.cron_item
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
begin
  perform asyncq._change_cron_item(identifier, changes, null);
  return (select status from asyncq._cron_status(array[identifier]) as status);
end
$$;

-- The work of change_cron_item; with a revision, only if the item still has it. Returns whether it was changed.
create or replace function asyncq._change_cron_item(item text, changes jsonb, job jsonb, expected bigint default null)
  returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_variable
declare
  stored asyncq._cron_items;
  definition jsonb;
begin
  perform asyncq._lock_cron_item(item);
  select one.* into stored from asyncq._cron_items as one where one.identifier = item for update;
  if stored.identifier is null then
    raise exception using errcode = 'GWBCS',
      message = 'the item ''' || item || ''' is not stored: it is changed in the crontab of its workers';
  elsif stored.revision <> expected then
    return false;
  end if;
  definition := asyncq._cron_definition(stored.definition, changes);
  perform asyncq._check_cron_item(item, definition);
  if definition is distinct from stored.definition then
    update asyncq.known_crontabs as known set not_before = asyncq.clock(), next_run = null where known.identifier = item;
    update asyncq._cron_items as one
      set definition = definition, revision = hashtextextended(definition::text, 0), problem = null, job = job,
        updated_at = asyncq.clock()
      where one.identifier = item;
    perform asyncq._wake_cron();
  end if;
  return true;
end
$$;
