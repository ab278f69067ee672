-- The job that a request came to, which was made before with this idempotency key, and the state of the job: completed when
-- nothing is known of it any more. No row when there was none, or it is too long ago.
-- One probe by the key, whatever a plan was made for: no other condition is one for an index, and offset 0 makes it no join.

create or replace function asyncq._request(key text, moment timestamptz) returns table (id bigint, state text)
  language sql stable
  as $$
  select request.job_id, coalesce(
    (select asyncq._state(job) from asyncq._jobs as job where job.id = request.job_id),
    (select ended.state from asyncq._ended_jobs as ended where ended.id = request.job_id),
    'completed')
  from asyncq._requests as request
  where request.key = _request.key and coalesce(request.keep_until, 'infinity') > moment
  offset 0
  $$;
