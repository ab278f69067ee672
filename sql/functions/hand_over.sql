-- Tell a worker of a job that was claimed by its offer, which is taken then: all of it that a run has to know, as
-- asyncq/store/offers.py reads it. The moment is in microseconds since 1970.

create or replace function asyncq._hand_over(job asyncq._jobs, channel text) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
begin
  update asyncq._offers set job_id = job.id where worker_id = job.locked_by;
  perform pg_notify(channel, json_build_array(
    job.lock_token, job.id, job.task_id, job.max_attempts, job.priority,
    (extract(epoch from job.run_at) * 1000000)::bigint, job.payload, job.meta::text)::text);
end
$$;
