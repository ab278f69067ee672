-- Remove data that need not be kept any longer, at most so many rows of each kind. These are ended jobs and requests
-- whose time is over, jobs that were discarded longer ago than discarded_retention_s (null: none), and attempts that
-- failed longer ago than error_retention_s. Locked rows are skipped. A discarded job that is to be kept leaves a row of
-- _ended_jobs.
-- Returns how many of each kind: the caller goes on while one of them is the maximum.
create or replace function asyncq._prune(discarded_retention_s float8, error_retention_s float8, most int)
  returns table (discarded bigint, ended bigint, requests bigint, attempts bigint)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  as $$
#variable_conflict use_column
declare
  -- Taken once: a volatile function is no bound for an index.
  moment constant timestamptz := asyncq.clock();
  long_ago constant timestamptz := moment - make_interval(secs => discarded_retention_s);
  errors_until constant timestamptz := moment - make_interval(secs => error_retention_s);
  discarded_ids bigint[];
  passed bigint;
  requested bigint;
  failed bigint;
begin
  discarded_ids := array(
    select job.id from asyncq._jobs as job
    where asyncq._is_discarded(job) and job.updated_at < long_ago
    order by job.updated_at limit most for update skip locked);
  perform asyncq._end_jobs(discarded_ids, 'discarded');
  delete from asyncq._ended_jobs where id = any(array(
    select id from asyncq._ended_jobs where keep_until <= moment
    order by keep_until limit most for update skip locked));
  get diagnostics passed = row_count;
  delete from asyncq._requests where key = any(array(
    select key from asyncq._requests where keep_until <= moment
    order by keep_until limit most for update skip locked));
  get diagnostics requested = row_count;
  perform asyncq._prune_progress(most);
  perform asyncq._prune_inputs(most);
  -- By their places: no row is ever updated.
  delete from asyncq._attempts where ctid = any(array(
    select ctid from asyncq._attempts where ended_at < errors_until
    order by ended_at limit most for update skip locked));
  get diagnostics failed = row_count;
  return query select cardinality(discarded_ids)::bigint, passed, requested, failed;
end
$$;

-- Remove progress that no reader finds, at most so many rows: its claim has ended, and its worker did not delete it. A
-- claim is older than its row, so one snapshot shows both. With `offset 0` each job is looked up.
create or replace function asyncq._prune_progress(most int) returns void
  language sql volatile
  as $$
  delete from asyncq._progress
  where ctid = any(array(
    select reported.ctid from asyncq._progress as reported
    where not exists (select from asyncq.progress as shown where shown.job_id = reported.job_id offset 0)
    limit most for update of reported skip locked))
  $$;

-- Remove key locks that were not used for a day, among the next so many after a key. This is a walk over all of them, a
-- few at a time, since an index on used_at would cost each add. Locked rows are skipped. An add that needs a row while
-- it is removed waits for this one statement, then inserts the row again.
-- The day is measured by the real clock, as used_at is. A transaction must not stay open longer. If its snapshot at
-- REPEATABLE READ is older, it finds no row, and misses the adds that it cannot see.
-- Returns how many were removed, and the last key of the walk; null at its end.
create or replace function asyncq._prune_key_locks(after bigint, most int) returns table (key_locks bigint, last_key bigint)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  as $$
#variable_conflict use_column
declare
  walked bigint[];
  removed bigint;
begin
  walked := array(select key from asyncq._key_locks where key > after order by key limit most);
  delete from asyncq._key_locks where key = any(array(
    select key from asyncq._key_locks
    where key = any(walked) and used_at < pg_catalog.clock_timestamp() - interval '1 day'
    order by key for update skip locked));
  get diagnostics removed = row_count;
  return query select removed, walked[cardinality(walked)];
end
$$;

-- End waiting jobs as cancelled that have expired, at most so many, the earliest first. A fetch ends those that it
-- claims; this ends the others, such as those of an unknown task or of a busy queue. Locked rows are skipped. Returns
-- their ids: the caller goes on while there are as many.
create or replace function asyncq._expire_jobs(most int) returns bigint[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  as $$
declare
  moment constant timestamptz := asyncq.now();
  expired bigint[];
begin
  expired := array(
    select job.id from asyncq._jobs as job
    where job.expires_at is not null and job.expires_at <= moment and asyncq._is_ready(job)
    order by job.expires_at limit most for update skip locked);
  perform asyncq._end_jobs(expired, 'cancelled');
  return expired;
end
$$;
