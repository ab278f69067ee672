-- Remove ended jobs from the history, by their ids, with their failed attempts. Of a job that a unique policy needs,
-- the key stays. Jobs that have not ended are left alone. Returns the ids of the removed jobs, in order.
create or replace function asyncq.remove_ended_jobs(job_ids bigint[]) returns setof bigint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  as $$
declare
  held constant bigint[] := array(
    select ended.id from asyncq._ended_jobs as ended
    where ended.id = any(job_ids) and ended.run_at is not null order by ended.id for update);
begin
  delete from asyncq._attempts as attempt where attempt.job_id = any(held);
  delete from asyncq._ended_jobs as ended where ended.id = any(held) and ended.unique_key is null;
  update asyncq._ended_jobs as ended
    set run_at = null, started_at = null, worker_id = null, attempts = null, max_attempts = null, priority = null, queue = null,
      error = null, payload = null, result = null, meta = null
    where ended.id = any(held);
  return query select unnest(held);
end
$$;

-- Blank the payloads, results and meta of ended jobs, by their ids; the rest of their history stays. Returns the ids of
-- the jobs that have a history, in order.
create or replace function asyncq.redact_ended_jobs(job_ids bigint[]) returns setof bigint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  as $$
declare
  held constant bigint[] := array(
    select ended.id from asyncq._ended_jobs as ended
    where ended.id = any(job_ids) and ended.run_at is not null order by ended.id for update);
begin
  -- A missing result would be read as null.
  update asyncq._ended_jobs as ended
    set payload = null, result = null, meta = null,
      error = coalesce(ended.error, case when ended.result is not null then 'the result was redacted' end)
    where ended.id = any(held);
  return query select unnest(held);
end
$$;
