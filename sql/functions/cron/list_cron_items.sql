-- All recurring items: stored ones, those in the crontabs of live workers, and those of workers that are gone, of which only the
-- name and the history are known. next_run is what a worker told last.

create or replace function asyncq.list_cron_items() returns setof asyncq.cron_item
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select status.* from asyncq._cron_status() as status $$;
