-- Cancel jobs, by their ids. What waits, also for a retry, ends as cancelled and is gone. What runs is cancelled for everybody
-- else at once: its key is free, its worker is told, and whatever its run comes to, it is not tried again; its row and its queue
-- stay until the handler has ended. What is discarded and what is not there is left alone.
-- Returns the rows of the jobs that were cancelled, as they were; those that run have locked_by. A job that somebody is taking,
-- changing or settling at this moment is waited for, and judged as it is then; at REPEATABLE READ and SERIALIZABLE the caller
-- gets 40001 if its snapshot is older.

create or replace function asyncq.cancel_jobs(job_ids bigint[]) returns setof asyncq.jobs
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (done.shown).* from asyncq._administer_jobs('cancel', job_ids) as done $$;
