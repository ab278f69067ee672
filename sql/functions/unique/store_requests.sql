-- Remember what requests with idempotency keys came to: parallel arrays, ids are those of the jobs that stand for them. Their
-- keys are locked; a job that was there before is locked, if it has a row, and will be known for as long as the request.
-- A refused request is not remembered, it did nothing; one that is remembered already stays as it is, with its time.

create or replace function asyncq._store_requests(
  identifiers text[], payloads json[], extras jsonb[], outcomes text[], ids bigint[]) returns void
  language plpgsql volatile
  as $$
declare
  moment constant timestamptz := asyncq.clock();
  kept_ids bigint[];
  kept_untils timestamptz[];
begin
  with stored as (
    insert into asyncq._requests as request (keep_until, job_id, key, digest)
      select moment + make_interval(secs => (given.extra ->> 'window_s')::float8), given.id, given.extra ->> 'request',
        asyncq._digest(given.identifier, given.payload)
      from unnest(identifiers, payloads, extras, outcomes, ids) as given(identifier, payload, extra, outcome, id)
      where given.extra ? 'request' and given.outcome <> 'rejected'
      order by (given.extra ->> 'request') collate "C"
      on conflict (key) do update
        set keep_until = excluded.keep_until, job_id = excluded.job_id, digest = excluded.digest
        where request.keep_until <= moment
      returning request.job_id, request.keep_until)
  select array_agg(stored.job_id), array_agg(stored.keep_until) into kept_ids, kept_untils from stored;
  -- A job that was added now is kept from the start.
  if 'updated' = any(outcomes) or 'deduplicated' = any(outcomes) then
    update asyncq._jobs as job
      set keep_until = greatest(job.keep_until, given.keep_until), keep_states = '{completed,cancelled,discarded}'
      from unnest(kept_ids, kept_untils) as given(id, keep_until)
      where job.id = any(array[given.id]);
    update asyncq._ended_jobs as ended set keep_until = greatest(ended.keep_until, given.keep_until)
      from unnest(kept_ids, kept_untils) as given(id, keep_until)
      where ended.id = any(array[given.id]);
  end if;
end
$$;
