-- Whether a live worker has an item of this identifier in its own crontab.

create or replace function asyncq._is_declared(item text) returns boolean
  language sql volatile
  as $$
  select exists (select from asyncq._workers as worker where worker.cron ? item and asyncq._is_live(worker))
  $$;
