-- Let new jobs, which are pending, wait for others, whose rows the caller has locked. ids are those of the new jobs, in
-- their order; one without `after` waits for nothing. The ends of the others are left to _settle_rest from now on, by
-- keep_until; a worker that claims one knows that by its extras. Their rows are written in any case, once a call: a
-- settlement with an older snapshot does not see the edges, and finds by this that the row is not the one that it
-- knows. A job that has ended has no edge: how it ended is left to a look. Of an unknown one nobody can say how it
-- ended. A new job is unknown to the others of its call, so no cycle can be written.
create or replace function asyncq._add_waits(ids bigint[], jobs asyncq._new_job[]) returns void
  language plpgsql volatile
  as $$
declare
  awaited constant bigint[] := array(
    select distinct given.id from unnest(jobs) as job cross join unnest(job.after) as given(id));
  open bigint[];
  discarded bigint[];
  ended bigint[];
  states text[];
  unknown bigint;
begin
  with marked as (
    update asyncq._jobs as job
      set keep_until = coalesce(job.keep_until, '-infinity'), extras = coalesce(job.extras, '{}') || '{"awaited": true}'
      where job.id = any(awaited)
      returning job.id, asyncq._is_discarded(job) as is_discarded)
  select coalesce(array_agg(marked.id), '{}'), array_agg(marked.id) filter (where marked.is_discarded)
    into open, discarded from marked;
  select array_agg(job.id), array_agg(job.state) into ended, states
    from asyncq._ended_jobs as job where job.id = any(awaited);
  -- By hashes: with `<> all` each id would be compared with each.
  unknown := (
    select min(given.id) from (
      select unnest(awaited) except (select unnest(open) except select unnest(ids)) except select unnest(ended)) as given(id));
  if unknown is not null then
    raise exception using errcode = 'GWBAF', column = 'after',
      message = 'after names job ' || unknown || ', of which nothing is known: it never was, or it has ended and was not kept; '
        || 'add both jobs in one transaction, or add job ' || unknown || ' with keep';
  end if;
  insert into asyncq._waits (waiter, job_id)
    select ids[job.ordinality], given.id
    from unnest(jobs) with ordinality as job cross join unnest(job.after) as given(id)
    join unnest(open) as awaits(id) on awaits.id = given.id;
  perform asyncq._leave_closings(array_agg(line.waiter), array_agg(line.job_id), array_agg(line.state))
    from (
      select ids[job.ordinality] as waiter, given.id as job_id, past.state
      from unnest(jobs) with ordinality as job cross join unnest(job.after) as given(id)
      join (
        select failed.id, 'failed' as state from unnest(discarded) as failed(id)
        union all
        select known.id, known.state from unnest(ended, states) as known(id, state)) as past on past.id = given.id
      where past.state <> 'completed'
        or not exists (select from asyncq._waits as edge where edge.waiter = ids[job.ordinality] offset 0)) as line;
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
    select distinct given.id from unnest(jobs) as job cross join unnest(job.after) as given(id)));
end
$$;
