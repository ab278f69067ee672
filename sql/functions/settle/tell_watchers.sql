-- Notify the clients that wait for the ends of these jobs, in the transaction that ends them. Their channels are in
-- extras, and cannot be guessed. A client asks for an end that is too long for a notification. The caller has locked
-- the rows of the jobs. An ended one has a row of _ended_jobs already, a discarded one has none.
create or replace function asyncq._tell_watchers(ids bigint[], end_state text) returns void
  -- In plpgsql, which keeps the plan: to make it takes longer than to run it.
  language plpgsql volatile
  as $$
begin
  perform pg_catalog.pg_notify(
      watcher.channel,
      case when octet_length(said.document) <= 7900 then said.document else json_build_object('id', job.id)::text end)
    from unnest(ids) as given(id)
    join asyncq._jobs as job on job.id = any(array[given.id]) and job.extras ? 'watchers'
    left join asyncq._ended_jobs as ended on ended.id = any(array[job.id])
    cross join lateral jsonb_array_elements_text(job.extras -> 'watchers') as watcher(channel)
    cross join lateral (
      select asyncq._end_document(
        job.id, job.task_id, end_state, coalesce(ended.attempts, job.attempts_made, job.attempts), ended.result,
        case when ended.id is null then job.last_error else ended.error end)) as said(document)
    where octet_length(watcher.channel) between 1 and 63;
end
$$;

-- Notify the watchers of the discarded ones of these jobs, and forget them: such a job has ended, unless it is retried
-- by hand. The caller has locked their rows.
create or replace function asyncq._tell_discarded(ids bigint[]) returns void
  language plpgsql volatile
  as $$
declare
  discarded constant bigint[] := array(
    select watched.id
    from unnest(ids) as given(id)
    -- One probe for each job, whatever the planner expects.
    cross join lateral (
      select job.id from asyncq._jobs as job
      where job.id = given.id and job.extras ? 'watchers' and asyncq._is_discarded(job) offset 0) as watched);
begin
  if discarded = '{}' then
    return;
  end if;
  perform asyncq._tell_watchers(discarded, 'discarded');
  update asyncq._jobs as job set extras = nullif(job.extras - 'watchers', '{}') where job.id = any(discarded);
end
$$;

-- The end of a job as a client reads it. Without attempts only a unique policy keeps the job, and its result is not
-- known. It is one value, which no codec of the caller's connection changes.
create or replace function asyncq._end_document(
  id bigint, task_id int, state text, attempts int, result json, error text) returns text
  language sql stable parallel safe
  as $$
  select json_build_object(
    'id', id, 'state', state, 'task', (select identifier from asyncq._tasks as task where task.id = task_id),
    'attempts', coalesce(attempts, 0), 'has_result', state = 'completed' and attempts is not null and error is null,
    'result', result, 'error', error)::text
  $$;
