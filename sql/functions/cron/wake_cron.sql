-- Tell the listening workers, when this transaction commits, that stored items have changed. A hint: a worker that misses it finds
-- them changed when it looks at the clock.

create or replace function asyncq._wake_cron() returns void
  language sql volatile
  as $$ select pg_catalog.pg_notify('asyncq:cron', '') $$;
