-- fetch_jobs(worker int, token bigint, max int, task_ids text, forbidden_flags text[], after_priority int2, after_run_at timestamptz, after_id bigint, now timestamptz, since_s float8, batch_from int, unbatched_ids text) -> asyncq._claim.*, ids bytea, task_ids bytea, queues text, limits bytea, priorities bytea, due bytea, created bytea, payloads text, metas text
-- Claims up to max due jobs, in order of priority, run_at, id; of each named queue at most one, and none while another
-- of it runs. All conditions are in the nodes that lock, so that they are checked again on the newest row. A node locks
-- only the rows that it takes. A row that is locked here and left is invisible to the workers that fetch at this
-- moment, and they would sleep in spite of it. _lock_queues names the one exception. Each lateral subquery is one index
-- probe, whatever the planner knows of the table.
--
-- A job that is claimed in its row is one row of the answer, with the columns of _claimed. Jobs that were only added,
-- and whose task is not in unbatched_ids, form a batch if they are at least batch_from. The fetch deletes their rows,
-- and claims them as one row of _batches. It is one row of the answer too, with arrays in the columns from ids on.
-- queues (JSON) and metas are null where no job has one, and created where it equals due. payloads and metas have
-- U+001E between two, which no JSON holds. The rows are deleted by the ctid by which they were locked. A row that was
-- written after this statement began has moved: its newest version is claimed in the row.
with recursive
-- Each priority that has jobs, one index probe each: the scans below stop at run_at <= now within a priority.
queued_priorities(priority) as (
  (select priority from asyncq._jobs as job
    where job.queue is not null and asyncq._is_ready(job) order by priority, run_at, id limit 1)
  union all
  select further.priority from queued_priorities
  cross join lateral (
    select priority from asyncq._jobs as job
    where job.queue is not null and asyncq._is_ready(job) and priority > queued_priorities.priority
    order by priority limit 1) as further),
-- A bounded window over the due jobs of queues, in order; of each queue in it the first job, if the queue is free.
-- First as many jobs as are wanted: they suffice where each has another free queue.
front as materialized (
  select due.id, due.queue, due.priority, due.run_at
  from queued_priorities
  cross join lateral (
    select id, queue, priority, run_at from asyncq._jobs as job
    where job.queue is not null and asyncq._is_ready(job)
      and priority = queued_priorities.priority and asyncq._is_due(job, coalesce($9, asyncq.now()))
      and asyncq._is_known(job, (select $4::text::int[])) and asyncq._is_allowed(job, $5)
    order by run_at, id limit $3::int) as due
  limit $3::int),
front_heads as materialized (
  select distinct on (queue) queue, priority, run_at, id from front
  where queue in (select queue from (select distinct queue from front) as waiting
    where not exists (select from asyncq._queues where name = waiting.queue offset 0))
  order by queue, priority, run_at, id),
-- If the window is full of jobs behind busy queues, it yields too few. Then walk over the queues that have jobs, from
-- one to the next by a hash of their names. The walk begins anywhere, so that each queue has its turn. It goes only as
-- far as the subqueries below read it.
pivot(hash) as materialized (
  select ((random() - 0.5) * 1.8e19)::bigint
  where (select count(*) from front) >= $3 and (select count(*) from front_heads) < $3),
waiting_queues(hash, queue, wrapped) as (
  select first.hash, first.queue, first.wrapped
  from pivot
  cross join lateral (
    (select hashtextextended(queue, 0) as hash, queue, false as wrapped from asyncq._jobs as job
      where job.queue is not null and asyncq._is_ready(job) and hashtextextended(queue, 0) >= pivot.hash
      order by hashtextextended(queue, 0) limit 1)
    union all
    (select hashtextextended(queue, 0), queue, true from asyncq._jobs as job
      where job.queue is not null and asyncq._is_ready(job) and hashtextextended(queue, 0) < pivot.hash
      order by hashtextextended(queue, 0) limit 1)
    limit 1) as first
  union all
  select next.hash, next.queue, next.wrapped
  from waiting_queues
  cross join lateral (
    (select hashtextextended(queue, 0) as hash, queue, waiting_queues.wrapped from asyncq._jobs as job
      where job.queue is not null and asyncq._is_ready(job) and hashtextextended(queue, 0) > waiting_queues.hash
        -- One bound in either case: a condition that holds for none of the rest would be asked of each job of the rest.
        and hashtextextended(queue, 0)
          <= case when waiting_queues.wrapped then (select hash - 1 from pivot) else 9223372036854775807 end
      order by hashtextextended(queue, 0) limit 1)
    union all
    (select hashtextextended(queue, 0), queue, true from asyncq._jobs as job
      where job.queue is not null and asyncq._is_ready(job)
        and not waiting_queues.wrapped and hashtextextended(queue, 0) < (select hash from pivot)
      order by hashtextextended(queue, 0) limit 1)
    limit 1) as next),
-- If there are many queues, first a second window: the order of the walk is another one.
near as materialized (
  select due.id, due.queue, due.priority, due.run_at
  from queued_priorities
  cross join lateral (
    select id, queue, priority, run_at from asyncq._jobs as job
    where job.queue is not null and asyncq._is_ready(job)
      and priority = queued_priorities.priority and asyncq._is_due(job, coalesce($9, asyncq.now()))
      and asyncq._is_known(job, (select $4::text::int[])) and asyncq._is_allowed(job, $5)
    order by run_at, id limit 2 * $3 + 100) as due
  where (select count(*) from (select from waiting_queues limit 17) as met) > 16
  limit 2 * $3 + 100),
near_heads as materialized (
  select queue, priority, run_at, id from front_heads where not exists (select from near)
  union all
  (select distinct on (queue) queue, priority, run_at, id from near
    where queue in (select queue from (select distinct queue from near) as waiting
      where not exists (select from asyncq._queues where name = waiting.queue offset 0))
    order by queue, priority, run_at, id)),
-- The priorities of jobs without a queue, from the cursor on; and the first of these jobs, to see which kind comes
-- first.
priorities(priority, after_run_at, after_id) as (
  (select priority,
      greatest(
        case when priority = $6 then coalesce($7, '-infinity'::timestamptz) else '-infinity'::timestamptz end,
        coalesce($9, asyncq.now()) - make_interval(secs => $10)),
      case when priority = $6 then coalesce($8, 0::bigint) else 0 end
    from asyncq._jobs as job
    where job.queue is null and asyncq._is_ready(job)
      and (priority, run_at, id)
        > (coalesce($6, -32768)::int2, coalesce($7, '-infinity'::timestamptz), coalesce($8, 0::bigint))
    order by priority, run_at, id limit 1)
  union all
  select further.priority, coalesce(coalesce($9, asyncq.now()) - make_interval(secs => $10), '-infinity'), 0::bigint
  from priorities
  cross join lateral (
    select priority from asyncq._jobs as job
    where job.queue is null and asyncq._is_ready(job) and priority > priorities.priority
    order by priority limit 1) as further),
first_unqueued as materialized (
  select ready.id, ready.priority, ready.run_at
  from priorities
  cross join lateral (
    select id, priority, run_at from asyncq._jobs as job
    where job.queue is null and asyncq._is_ready(job) and priority = priorities.priority
      and (run_at, id) > (priorities.after_run_at, priorities.after_id) and asyncq._is_due(job, coalesce($9, asyncq.now()))
      and asyncq._is_known(job, (select $4::text::int[])) and asyncq._is_allowed(job, $5)
    order by run_at, id limit $3) as ready
  limit $3),
-- Of each queue of the walk the first job, if the queue is free. With fewer queues than the bounds the walk meets them
-- all, and the order is exact.
far_heads as materialized (
  select head.queue, head.priority, head.run_at, head.id
  from (select hash, queue from waiting_queues
    limit case when not exists (select from near)
      or (select count(*) from near) >= 2 * $3 + 100
        and (select count(*) from near_heads) + (
          select count(*) from first_unqueued
          where (priority, run_at, id)
            < (select priority, run_at, id from near order by priority desc, run_at desc, id desc limit 1)) < $3
      then 2 * $3 + 1000 else 0 end) as waiting
  cross join lateral (
    -- Within a priority the index ends at run_at <= now: no future job of the queue is read.
    select first.queue, first.priority, first.run_at, first.id
    from queued_priorities
    cross join lateral (
      select queue, priority, run_at, id from asyncq._jobs as job
      where hashtextextended(queue, 0) = waiting.hash and priority = queued_priorities.priority and queue = waiting.queue
        and asyncq._is_ready(job) and asyncq._is_due(job, coalesce($9, asyncq.now()))
        and asyncq._is_known(job, (select $4::text::int[])) and asyncq._is_allowed(job, $5)
      order by run_at, id limit 1) as first
    limit 1) as head
  where not exists (select from asyncq._queues where name = waiting.queue offset 0)
  limit $3 + 100),
heads as materialized (
  select queue, priority, run_at, id from near_heads
  union all
  select queue, priority, run_at, id from far_heads where id not in (select id from near_heads)
  order by priority, run_at, id),
-- How many of the best are jobs of queues: only so many of them are locked, and as many fewer of the others.
serial_share(jobs) as materialized (
  select count(*) filter (where is_serial)
  from (
    select is_serial from (
      select priority, run_at, id, true as is_serial from heads
      union all
      select priority, run_at, id, false from first_unqueued where exists (select from heads)) as both_kinds
    order by priority, run_at, id limit $3) as best),
serial as materialized (
  select job.id, job.queue, job.row_ctid, job.is_batchable
  from heads
  cross join lateral (
    select id, queue, job.ctid as row_ctid,
      asyncq._is_batchable(job) and not asyncq._is_known(job, (select $12::text::int[])) as is_batchable
    from asyncq._jobs as job
    where id = heads.id and queue = heads.queue
      and asyncq._is_ready(job) and asyncq._is_due(job, coalesce($9, asyncq.now()))
      and asyncq._is_known(job, (select $4::text::int[])) and asyncq._is_allowed(job, $5)
    for update skip locked) as job
  limit (select jobs from serial_share)),
-- Their queues. Another fetch may have taken one since the snapshot, for another job: then this one's job is left
-- alone. The jobs are locked first, so that no queue is held without a job that runs.
held as materialized (
  select unnest(asyncq._lock_queues(array(select queue from serial), $1)) as queue
  where exists (select from serial)),
unqueued as materialized (
  select ready.id, ready.row_ctid, ready.is_batchable
  from priorities
  cross join lateral (
    select id, job.ctid as row_ctid,
      asyncq._is_batchable(job) and not asyncq._is_known(job, (select $12::text::int[])) as is_batchable
    from asyncq._jobs as job
    where job.queue is null and asyncq._is_ready(job) and priority = priorities.priority
      and (run_at, id) > (priorities.after_run_at, priorities.after_id) and asyncq._is_due(job, coalesce($9, asyncq.now()))
      and asyncq._is_known(job, (select $4::text::int[])) and asyncq._is_allowed(job, $5)
    order by run_at, id limit $3
    for update skip locked) as ready
  limit $3 - (select count(*) from held)),
taken as materialized (
  select id, row_ctid, is_batchable from serial where queue in (select queue from held)
  union all
  select id, row_ctid, is_batchable from unqueued),
chosen as materialized (select array_agg(row_ctid) as row_ctids from taken where is_batchable having count(*) >= $11::int),
batched as (
  delete from asyncq._jobs where ctid = any((select row_ctids from chosen)::tid[])
  returning id, task_id, queue, max_attempts, priority, run_at, created_at, meta, payload),
batch as (
  insert into asyncq._batches
      (lock_token, locked_at, locked_by, unsettled, ids, run_at, created_at, task_id, priority, max_attempts, queue, meta, payload)
    select $2, coalesce($9, asyncq.now()), $1, repeat('1', count(*)::int)::varbit, array_agg(id), array_agg(run_at),
      array_agg(created_at), array_agg(task_id), array_agg(priority), array_agg(max_attempts),
      case when count(queue) > 0 then array_agg(queue) end, case when count(meta) > 0 then array_agg(meta) end, array_agg(payload)
    from (
      select id, run_at, created_at, task_id, priority, max_attempts, queue, meta, payload from batched order by id) as in_order
    having count(*) > 0
  returning ids, task_id, queue, max_attempts, priority, run_at, created_at, meta, payload),
moved as (
  select unnest(array(select id from taken where is_batchable except select id from batched)) as id
  where (select count(*) from batched) < (select cardinality(row_ctids) from chosen)),
claimed as (
  update asyncq._jobs as job
  set locked_by = $1, locked_at = coalesce($9, asyncq.now()), lock_token = $2
  where id = any(array(
    select id from taken where not is_batchable or not exists (select from chosen)
    union all
    select id from moved))
  returning (asyncq._claimed(job)).*),
batched_claims as (
  select array_send(ids) as ids, array_send(task_id) as task_ids, array_to_json(queue)::text as queues,
    array_send(max_attempts) as limits, array_send(priority) as priorities, array_send(run_at) as due,
    array_send(nullif(created_at, run_at)) as created, array_to_string(payload, chr(30)) as payloads,
    array_to_string(meta::text[], chr(30), '') as metas
  from batch)
select claimed.*, batched_claims.* from claimed full join batched_claims on false
