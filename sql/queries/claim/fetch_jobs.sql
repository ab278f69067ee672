-- fetch_jobs(worker int, token bigint, max int, task_ids text, forbidden_flags text[], after_priority int2, after_run_at timestamptz, after_id bigint, now timestamptz, since_s float8, batch_from int, unbatched_ids text, yields bool) -> asyncq._claim.*, ids bytea, task_ids bytea, queues text, limits bytea, priorities bytea, due bytea, created bytea, payloads text, metas text, are_woken bool
-- Claims up to max due jobs that have no partition, in order of priority, run_at, id. All conditions are in the node
-- that locks, so that they are checked again on the newest row. It locks only the rows that it takes: a row that is
-- locked here and left is invisible to the workers that fetch at this moment, and they would sleep in spite of it. Each
-- lateral subquery is one index probe, whatever the planner knows of the table.
--
-- A job that is claimed in its row is one row of the answer, with the columns of _claimed. Jobs that were only added,
-- and whose task is not in unbatched_ids, form a batch if they are at least batch_from. The fetch deletes their rows,
-- and claims them as one row of _batches. It is one row of the answer too, with arrays in the columns from ids on.
-- queues (JSON) and metas are null where no job has one, and created where it equals due. payloads and metas have
-- U+001E between two, which no JSON holds. The rows are deleted by the ctid by which they were locked. A row that was
-- written after this statement began has moved: its newest version is claimed in the row.
--
-- are_woken: partitions with jobs for this worker were woken, and not only behind full gates, so fetch_partitions may
-- find some. If yields is true, no job is claimed then: jobs of partitions may come first. The answer has at least one
-- row, without a claim if need be.
with recursive
woken(are_woken) as materialized (
  select exists (
  select from (select $4::text::int[] as task_ids offset 0) as worker
  cross join lateral asyncq._woken_kinds(worker.task_ids) as kind
  cross join lateral (
    select from asyncq._wakeups as wakeup
    where wakeup.task_id = kind.task_id and wakeup.priority = kind.priority and wakeup.at <= coalesce($9, asyncq.now())
    limit 1) as woken
  where not exists (select from asyncq._full_gate(kind.gate, kind.total, coalesce($9, asyncq.now())) offset 0))),
plain_tasks(ids) as materialized (select asyncq._plain_tasks($4::text::int[])),
-- The priorities of jobs without a partition, from the cursor on.
priorities(priority, after_run_at, after_id) as (
  (select priority,
      greatest(
        case when priority = $6 then coalesce($7, '-infinity'::timestamptz) else '-infinity'::timestamptz end,
        coalesce($9, asyncq.now()) - make_interval(secs => $10)),
      case when priority = $6 then coalesce($8, 0::bigint) else 0 end
    from asyncq._jobs as job
    where job.partition is null and asyncq._is_ready(job) and (select ids <> '{}' from plain_tasks)
      and not (select $13 and are_woken from woken)
      and (priority, run_at, id)
        > (coalesce($6, -32768)::int2, coalesce($7, '-infinity'::timestamptz), coalesce($8, 0::bigint))
    order by priority, run_at, id limit 1)
  union all
  select further.priority, coalesce(coalesce($9, asyncq.now()) - make_interval(secs => $10), '-infinity'), 0::bigint
  from priorities
  cross join lateral (
    select priority from asyncq._jobs as job
    where job.partition is null and asyncq._is_ready(job) and priority > priorities.priority
    order by priority limit 1) as further),
taken as materialized (
  select ready.id, ready.row_ctid, ready.is_batchable
  from priorities
  cross join lateral (
    select id, job.ctid as row_ctid,
      asyncq._is_batchable(job) and not asyncq._is_known(job, (select $12::text::int[])) as is_batchable
    from asyncq._jobs as job
    where job.partition is null and asyncq._is_ready(job) and priority = priorities.priority
      and (run_at, id) > (priorities.after_run_at, priorities.after_id) and asyncq._is_due(job, coalesce($9, asyncq.now()))
      and asyncq._is_known(job, (select ids from plain_tasks)) and asyncq._is_allowed(job, $5)
    order by run_at, id limit $3::int
    for update skip locked) as ready
  limit $3::int),
chosen as materialized (select array_agg(row_ctid) as row_ctids from taken where is_batchable having count(*) >= $11::int),
batched as (
  delete from asyncq._jobs where ctid = any((select row_ctids from chosen)::tid[])
  returning id, task_id, max_attempts, priority, run_at, created_at, meta, payload),
batch as (
  insert into asyncq._batches
      (lock_token, locked_at, locked_by, unsettled, ids, run_at, created_at, task_id, priority, max_attempts, meta, payload)
    select $2, coalesce($9, asyncq.now()), $1, repeat('1', count(*)::int)::varbit, array_agg(id), array_agg(run_at),
      array_agg(created_at), array_agg(task_id), array_agg(priority), array_agg(max_attempts),
      case when count(meta) > 0 then array_agg(meta) end, array_agg(payload)
    from (
      select id, run_at, created_at, task_id, priority, max_attempts, meta, payload
      from batched order by id) as in_order
    having count(*) > 0
  returning ids, task_id, max_attempts, priority, run_at, created_at, meta, payload),
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
  select array_send(ids) as ids, array_send(task_id) as task_ids, null::text as queues,
    array_send(max_attempts) as limits, array_send(priority) as priorities, array_send(run_at) as due,
    array_send(nullif(created_at, run_at)) as created, array_to_string(payload, chr(30)) as payloads,
    array_to_string(meta::text[], chr(30), '') as metas
  from batch)
select claimed.*, batched_claims.*, (select are_woken from woken) as are_woken
from (select) as always left join (claimed full join batched_claims on false) on true
