-- fetch_jobs(worker int, token bigint, max int, task_ids int[], forbidden_flags text[], after_priority int2, after_run_at timestamptz, after_id bigint, now timestamptz) -> id bigint, task_id int, queue_id bigint, lock_token bigint, attempts int2, max_attempts int2, interruptions int2, priority int2, revision int4, run_at timestamptz, created_at timestamptz, updated_at timestamptz, key text, flags jsonb, payload json, meta jsonb, last_error text
-- Claims up to max due jobs, in order of priority, run_at, id; of each named queue at most one, and none while another of
-- it runs. All conditions stand in the nodes that lock, so that they are checked again on the newest row.
with recursive
-- Each priority that has jobs, one index probe each: the scans below stop at run_at <= now within a priority.
queued_priorities(priority) as (
  (select priority from asyncq._jobs
    where queue_id is not null and locked_by is null and attempts < max_attempts
    order by priority, run_at, id limit 1)
  union all
  select further.priority from queued_priorities
  cross join lateral (
    select priority from asyncq._jobs
    where queue_id is not null and locked_by is null and attempts < max_attempts
      and priority > queued_priorities.priority
    order by priority limit 1) as further),
-- A bounded window over the due jobs of queues, in order.
near as materialized (
  select due.id, due.queue_id, due.priority, due.run_at
  from queued_priorities
  cross join lateral (
    select id, queue_id, priority, run_at from asyncq._jobs
    where queue_id is not null and locked_by is null and attempts < max_attempts
      and priority = queued_priorities.priority and run_at <= coalesce($9, asyncq.now())
      and task_id = any($4) and ($5::text[] is null or flags is null or not flags ?| $5)
    order by run_at, id limit 4 * $3) as due
  limit 4 * $3),
near_heads as materialized (
  select distinct on (near.queue_id) near.queue_id, near.priority, near.run_at, near.id
  from near join asyncq._queues queue on queue.id = near.queue_id and queue.locked_by is null
  order by near.queue_id, near.priority, near.run_at, near.id),
-- The window is full of jobs behind busy queues and yields too few: take the head of every free queue that has jobs.
waiting_queues(queue_id) as (
  (select queue_id from asyncq._jobs
    where queue_id is not null and locked_by is null and attempts < max_attempts
      and (select count(*) from near) >= 4 * $3 and (select count(*) from near_heads) < $3
    order by queue_id limit 1)
  union all
  select further.queue_id from waiting_queues
  cross join lateral (
    select queue_id from asyncq._jobs
    where queue_id is not null and locked_by is null and attempts < max_attempts
      and queue_id > waiting_queues.queue_id
    order by queue_id limit 1) as further),
far_heads as materialized (
  select head.queue_id, head.priority, head.run_at, head.id
  from waiting_queues
  join asyncq._queues queue on queue.id = waiting_queues.queue_id and queue.locked_by is null
  cross join lateral (
    select id, queue_id, priority, run_at from asyncq._jobs
    where queue_id = waiting_queues.queue_id and locked_by is null and attempts < max_attempts
      and run_at <= coalesce($9, asyncq.now())
      and task_id = any($4) and ($5::text[] is null or flags is null or not flags ?| $5)
    order by priority, run_at, id limit 1) as head
  order by head.priority, head.run_at, head.id limit $3),
heads as materialized (
  select queue_id, id from near_heads union select queue_id, id from far_heads),
free_queues as materialized (
  select id from asyncq._queues
  where id = any(array(select queue_id from heads)) and locked_by is null
  for no key update skip locked),
locked_heads as materialized (
  select id, queue_id, priority, run_at from asyncq._jobs
  where id = any(array(select id from heads))
    and queue_id = any(array(select id from free_queues))
    and locked_by is null and attempts < max_attempts and run_at <= coalesce($9, asyncq.now())
    and task_id = any($4) and ($5::text[] is null or flags is null or not flags ?| $5)
  for update skip locked),
-- Once more after the lock: meanwhile a job may have moved to another queue.
serial as materialized (
  select distinct on (queue_id) id, queue_id, priority, run_at from locked_heads
  order by queue_id, priority, run_at, id),
priorities(priority, after_run_at, after_id) as (
  (select priority,
      case when priority = $6 then coalesce($7, '-infinity'::timestamptz) else '-infinity'::timestamptz end,
      case when priority = $6 then coalesce($8, 0::bigint) else 0 end
    from asyncq._jobs
    where queue_id is null and locked_by is null and attempts < max_attempts
      and (priority, run_at, id)
        > (coalesce($6, -32768)::int2, coalesce($7, '-infinity'::timestamptz), coalesce($8, 0::bigint))
    order by priority, run_at, id limit 1)
  union all
  select further.priority, '-infinity'::timestamptz, 0::bigint from priorities
  cross join lateral (
    select priority from asyncq._jobs
    where queue_id is null and locked_by is null and attempts < max_attempts and priority > priorities.priority
    order by priority limit 1) as further),
plain as materialized (
  select ready.id, ready.priority, ready.run_at
  from priorities
  cross join lateral (
    select id, priority, run_at from asyncq._jobs
    where queue_id is null and locked_by is null and attempts < max_attempts
      and priority = priorities.priority
      and (run_at, id) > (priorities.after_run_at, priorities.after_id)
      and run_at <= coalesce($9, asyncq.now())
      and task_id = any($4) and ($5::text[] is null or flags is null or not flags ?| $5)
    order by run_at, id limit $3
    for update skip locked) as ready
  limit $3),
best as materialized (
  select id, queue_id from (
    select id, queue_id, priority, run_at from serial
    union all
    select id, null, priority, run_at from plain) as both_kinds
  order by priority, run_at, id limit $3),
busied as (
  update asyncq._queues set locked_by = $1, lock_token = $2
  where id = any(array(select queue_id from best where queue_id is not null)))
update asyncq._jobs
set locked_by = $1, locked_at = coalesce($9, asyncq.now()), lock_token = $2
where id = any(array(select id from best))
returning id, task_id, queue_id, lock_token, attempts, max_attempts, interruptions, priority, revision, run_at, created_at, updated_at, key, flags, payload, meta, last_error
