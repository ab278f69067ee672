-- Let new jobs, which are pending, wait for others, whose rows the caller has locked. ids are those of the new jobs, in
-- their order; one without `after` waits for nothing. A negative number in `after` is the place of an earlier job of
-- the call. The ends of the others are left to _settle_rest from now on, by keep_until; a worker that claims one knows
-- that by its extras, also that its result is passed on. Their rows are written in any case, once a call: a settlement
-- with an older snapshot does not see the edges, and finds by this that the row is not the one that it knows. A job
-- that has ended has no edge: how it ended is left to a look. Of an unknown one nobody can say how it ended. A new job
-- is known only by its place to later ones of its call, so no cycle can be written.
create or replace function asyncq._add_waits(ids bigint[], jobs asyncq._new_job[]) returns void
  language plpgsql volatile
  as $$
declare
  waiters bigint[];
  others bigint[];
  places int[];
  named bigint[];
  open bigint[];
  discarded bigint[];
  ended bigint[];
  states text[];
  unknown bigint;
begin
  select array_agg(ids[job.ordinality]), array_agg(case when given.id < 0 then ids[-given.id] else given.id end),
      array_agg(case when job.extras ? 'takes' then given.place end), array_agg(distinct given.id) filter (where given.id > 0),
      min(given.id) filter (where -given.id >= job.ordinality)
    into waiters, others, places, named, unknown
    from unnest(jobs) with ordinality as job cross join unnest(job.after) with ordinality as given(id, place);
  if unknown is not null then
    raise exception using errcode = 'GWBAF', column = 'after', message = 'a job of a workflow waits for a later one, job ' || -unknown;
  end if;
  with marked as (
    update asyncq._jobs as job
      set keep_until = coalesce(job.keep_until, '-infinity'), extras = coalesce(job.extras, '{}') || case
          when awaited.is_passed then '{"awaited": true, "passed": true}'::jsonb else '{"awaited": true}' end
      from (
        select line.other, bool_or(line.place is not null) as is_passed
        from unnest(others, places) as line(other, place) group by line.other) as awaited
      where job.id = any(array[awaited.other])
      returning job.id, asyncq._is_discarded(job) as is_discarded)
  select coalesce(array_agg(marked.id), '{}'), array_agg(marked.id) filter (where marked.is_discarded)
    into open, discarded from marked;
  select array_agg(job.id), array_agg(job.state) into ended, states
    from asyncq._ended_jobs as job where job.id = any(named);
  -- By hashes: with `<> all` each id would be compared with each.
  unknown := (
    select min(given.id) from (
      select unnest(named) except (select unnest(open) except select unnest(ids)) except select unnest(ended)) as given(id));
  if unknown is not null then
    raise exception using errcode = 'GWBAF', column = 'after',
      message = 'after names job ' || unknown || ', of which nothing is known: it never was, or it has ended and was not kept; '
        || 'add both jobs in one transaction, or add job ' || unknown || ' with keep';
  end if;
  insert into asyncq._waits (waiter, job_id, place)
    select line.waiter, line.other, line.place
    from unnest(waiters, others, places) as line(waiter, other, place)
    join unnest(open) as awaits(id) on awaits.id = line.other;
  if ended is not null then
    perform asyncq._pass_results(array_agg(line.waiter), array_agg(line.place), array_agg(past.result::text))
      from unnest(waiters, others, places) as line(waiter, other, place)
      join asyncq._ended_jobs as past on past.id = any(array[line.other])
      where past.id = any(ended) and past.state = 'completed';
  end if;
  perform asyncq._leave_closings(array_agg(line.waiter), array_agg(line.job_id), array_agg(line.state))
    from (
      select given.waiter, given.other as job_id, past.state
      from unnest(waiters, others) as given(waiter, other)
      join (
        select failed.id, 'failed' as state from unnest(discarded) as failed(id)
        union all
        select known.id, known.state from unnest(ended, states) as known(id, state)) as past on past.id = given.other
      where past.state <> 'completed'
        or not exists (select from asyncq._waits as edge where edge.waiter = given.waiter offset 0)) as line;
  -- Fetches have skipped jobs that were locked here.
  perform asyncq._wake_for(open);
end
$$;

-- Lock the jobs that new jobs name in `after`, and others. So the caller waits for a job that is being settled at this
-- moment, and none of them ends before the edges are there.
create or replace function asyncq._lock_awaited(jobs asyncq._new_job[], others bigint[]) returns void
  language plpgsql volatile
  as $$
begin
  perform asyncq._lock_jobs(others || array(
    select distinct given.id from unnest(jobs) as job cross join unnest(job.after) as given(id) where given.id > 0));
end
$$;
