-- Tell the listening workers, when this transaction commits, that something may have become due. A hint: a worker that
-- misses it finds the job at its next poll. The text is constant, so that PostgreSQL folds many calls into one message.

create or replace function asyncq._wake_workers() returns void
  language sql volatile
  as $$ select pg_catalog.pg_notify('asyncq:jobs', '') $$;
