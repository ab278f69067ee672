-- Change when jobs run, by their ids. Null leaves a field as it is, 0 is a value. attempts are failed ones: fewer than
-- max_attempts revive a discarded job, others end it as one. What runs is left alone.
-- Returns the rows of the jobs that were changed, as they are now, in the order of their ids.

create or replace function asyncq.reschedule_jobs(
  job_ids bigint[], run_at timestamptz default null, priority int default null, attempts int default null,
  max_attempts int default null)
  returns setof asyncq.jobs
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
begin
  perform asyncq._check_jobs(
    array['reschedule_jobs'], array[null::json], array[null::text], array[run_at], array[max_attempts], array[null::text],
    array[priority], array[null::text]);
  if attempts not between 0 and 32767 then
    raise exception using errcode = '22003', column = 'attempts',
      message = 'attempts is ' || attempts || ', expected 0 to 32767';
  end if;
  return query
    select (done.shown).*
    from asyncq._administer_jobs('reschedule', job_ids, null, run_at, priority, attempts, max_attempts) as done;
end
$$;
