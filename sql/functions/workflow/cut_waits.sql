-- Cut the edges that lead to jobs, which end in this transaction. The caller has locked the rows of the jobs. results
-- are parallel to ids, or null: a waiter that takes them gets them. It waits for nobody, and leaves a closing for each
-- waiter
--
--   of an edge that another transaction has locked: that one may roll back, and then nobody else would look
--   of a job that did not complete: the waiter may have to be cancelled
--   none of whose other edges is untouched: this edge may be the last one, perhaps together with others
--
-- An edge is touched if xmax is set. Who cuts an edge sets its xmax first, then reads that of the other edges. So of
-- several transactions that cut the last edges of a waiter beside each other, at least one leaves a closing. A lock, a
-- multixact or an aborted deletion counts as touched too: then there is one closing more.
create or replace function asyncq._cut_waits(ids bigint[], end_state text, results text[] default null) returns void
  language plpgsql volatile
  -- Before statistics exist, _has_untouched_wait would read and sort all edges of the waiter.
  set enable_bitmapscan = off
  as $$
#variable_conflict use_column
declare
  waiters bigint[];
  jobs bigint[];
  places int[];
begin
  with cut as (
    delete from asyncq._waits where ctid = any(array(
      select ctid from asyncq._waits where job_id = any(ids) for update skip locked))
    returning waiter, job_id, place)
  select array_agg(waiter), array_agg(job_id), array_agg(place) into waiters, jobs, places from cut;
  -- Statements of their own, behind the deletion. An edge that another transaction has locked may stay: then its waiter
  -- needs the result.
  if results is not null then
    perform asyncq._pass_results(array_agg(edge.waiter), array_agg(edge.place), array_agg(given.result))
      from (
        select waiter, job_id, place from asyncq._waits where job_id = any(ids) and place is not null
        union all
        select cut.waiter, cut.job_id, cut.place from unnest(waiters, jobs, places) as cut(waiter, job_id, place)) as edge
      join unnest(ids, results) as given(id, result) on given.id = edge.job_id;
  end if;
  perform asyncq._leave_closings(
      array_agg(edge.waiter), array_agg(edge.job_id), array_agg(end_state))
    from (
      select waiter, job_id from asyncq._waits where job_id = any(ids)
      union all
      select cut.waiter, max(cut.job_id)
      from unnest(waiters, jobs) as cut(waiter, job_id)
      group by cut.waiter
      having end_state <> 'completed' or not asyncq._has_untouched_wait(cut.waiter)) as edge;
end
$$;

-- Whether a job waits for something that nobody has begun to cut. What was added last ends last, mostly. A range
-- instead of an equality: only the primary key has this order, and by waits_job_id it would read the edges of other
-- waiters too.
create or replace function asyncq._has_untouched_wait(of_waiter bigint) returns boolean
  language sql volatile
  as $$
  select coalesce((
    select true from asyncq._waits as edge
    where edge.waiter between of_waiter and of_waiter and edge.xmax = '0'::xid
    order by edge.waiter desc, edge.job_id desc limit 1), false)
  $$;

-- Delete the edges and the results of waiters that end in this transaction, except edges that another transaction has
-- locked: it cuts them, or they end with their jobs.
create or replace function asyncq._drop_waits(waiters bigint[]) returns void
  language plpgsql volatile
  as $$
#variable_conflict use_column
begin
  delete from asyncq._waits where ctid = any(array(
    select ctid from asyncq._waits where waiter = any(waiters) for update skip locked));
  delete from asyncq._inputs where waiter = any(waiters);
end
$$;

-- Leave closings for the waiters of those of these jobs that are discarded now. Such a job can still be retried: its
-- edges stay until a look has decided. The caller has locked their rows.
create or replace function asyncq._note_discarded(ids bigint[]) returns void
  language plpgsql volatile
  as $$
begin
  perform asyncq._leave_closings(array_agg(edge.waiter), array_agg(edge.job_id), array_agg('failed'::text))
    from asyncq._waits as edge
    -- Each job is looked up, and only if another one waits for it.
    where edge.job_id = any(ids) and exists (
      select from asyncq._jobs as job where job.id = edge.job_id and asyncq._is_discarded(job) offset 0);
end
$$;

-- Insert closings, and notify the workers of them at commit, once a transaction.
create or replace function asyncq._leave_closings(waiters bigint[], jobs bigint[], states text[]) returns void
  language plpgsql volatile
  as $$
begin
  if waiters is not null then
    insert into asyncq._closings (waiter, job_id, state)
      select line.waiter, line.job_id, line.state from unnest(waiters, jobs, states) as line(waiter, job_id, state);
    perform pg_catalog.pg_notify('asyncq:jobs', 'closings');
  end if;
end
$$;
