-- Change a stored item. changes is an object of the members that are to be other: task, expression, payload, and what the options
-- of add_cron_item are; null gives the default back. It keeps its history and its pause; what was due before is not made up for.
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
