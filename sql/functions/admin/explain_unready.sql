-- The part of explain for jobs that are not ready, and which no fetch looks at: one that runs, or is discarded.

create or replace function asyncq._explain_unready(job asyncq._jobs) returns table (reason text, detail text)
  language sql stable
  as $$
  select said.reason, said.detail
  from (
    select 1 as rank, 'cancelled' as reason,
      'was cancelled at ' || job.cancelled_at || ', ends as cancelled when its handler does' as detail
    where job.cancelled_at is not null
    union all
    select 2, 'running', case
        when asyncq._is_live(worker) then 'runs on worker ' || worker.id || ' (' || worker.host || ', process ' || worker.pid || ')'
        else 'was taken by worker ' || job.locked_by || ', which is not alive: another worker will return it, taken'
      end || ' since ' || job.locked_at
    from (select) as always left join asyncq._workers as worker on worker.id = job.locked_by
    where job.locked_by is not null
    union all
    select 3, 'last_attempt', 'will not be tried again: its attempts are used up, or another job has got its key'
    where job.locked_by is not null and job.attempts + 1 >= job.max_attempts
    union all
    select 4, 'discarded', 'discarded after ' || coalesce(job.attempts_made, job.attempts) || ' of ' || job.max_attempts || ' attempts'
      || coalesce(': ' || split_part(job.last_error, E'\n', 1), '')
    where job.locked_by is null) as said
  order by said.rank
  $$;
