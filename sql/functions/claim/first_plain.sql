-- The first due jobs without a partition that a worker may claim, after a position, as fetch_jobs reads them; of each
-- priority at most so many. It is
-- inlined, so its arguments are no subqueries.
create or replace function asyncq._first_plain(
  task_ids int[], forbidden_flags text[], after_priority smallint, after_run_at timestamptz, after_id bigint, moment timestamptz,
  since timestamptz, most int)
  returns table (priority smallint, run_at timestamptz, id bigint)
  language sql stable
  as $$
  with recursive priorities(priority, after_run_at, after_id) as (
    (select job.priority,
        greatest(case when job.priority = _first_plain.after_priority then _first_plain.after_run_at end, since, '-infinity'),
        case when job.priority = _first_plain.after_priority then coalesce(_first_plain.after_id, 0) else 0 end
      from asyncq._jobs as job
      where job.partition is null and asyncq._is_ready(job)
        and (job.priority, job.run_at, job.id)
          > (coalesce(_first_plain.after_priority, (-32768)::smallint), coalesce(_first_plain.after_run_at, '-infinity'), coalesce(_first_plain.after_id, 0))
      order by job.priority, job.run_at, job.id limit 1)
    union all
    select further.priority, coalesce(since, '-infinity'), 0::bigint
    from priorities
    cross join lateral (
      select job.priority from asyncq._jobs as job
      where job.partition is null and asyncq._is_ready(job) and job.priority > priorities.priority
      order by job.priority limit 1) as further)
  select ready.priority, ready.run_at, ready.id
  from priorities
  cross join lateral (
    select job.priority, job.run_at, job.id from asyncq._jobs as job
    where job.partition is null and asyncq._is_ready(job) and job.priority = priorities.priority
      and (job.run_at, job.id) > (priorities.after_run_at, priorities.after_id) and asyncq._is_due(job, moment)
      and asyncq._is_known(job, task_ids) and asyncq._is_allowed(job, forbidden_flags)
    order by job.run_at, job.id limit most) as ready
  $$;
