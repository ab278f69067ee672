-- The public view over jobs, whose columns may be added at its end and are never removed, and the type of an add.

-- Rows of _jobs as the public view shows them, for statements that know that their job has a row.
create view asyncq._shown_jobs as
select job.id, job.queue as queue_name, task.identifier as task_identifier, job.priority, job.run_at,
  least(job.attempts + (job.locked_by is not null)::int, greatest(job.attempts, job.max_attempts))::smallint as attempts,
  job.max_attempts, job.last_error, job.created_at, job.updated_at, job.key, job.locked_at, job.locked_by::text as locked_by,
  job.revision, job.flags
from asyncq._jobs as job
join asyncq._tasks as task on task.id = job.task_id;

-- Rows and members of batches. The names of tasks are joined outside of the union: so the index of _jobs orders a page.
create view asyncq.jobs as
select job.id, job.queue as queue_name, task.identifier as task_identifier, job.priority, job.run_at,
  least(job.attempts + (job.locked_by is not null)::int, greatest(job.attempts, job.max_attempts))::smallint as attempts,
  job.max_attempts, job.last_error, job.created_at, job.updated_at, job.key, job.locked_at, job.locked_by::text as locked_by,
  job.revision, job.flags
from (
  select id, queue, task_id, priority, run_at, attempts, max_attempts, last_error, created_at, updated_at, key, locked_at,
    locked_by, revision, flags
  from asyncq._jobs
  union all
  select batched.id, batched.queue, batched.task_id, batched.priority, batched.run_at, 0::smallint, batched.max_attempts, null,
    batched.created_at, batched.created_at, null, batch.locked_at, batch.locked_by, 0, null
  from asyncq._batches as batch
  cross join lateral unnest(
      batch.ids, batch.queue, batch.task_id, batch.priority, batch.run_at, batch.max_attempts, batch.created_at)
    with ordinality as batched(id, queue, task_id, priority, run_at, max_attempts, created_at, ordinal)
  where get_bit(batch.unsettled, batched.ordinal::int - 1) = 1) as job
join asyncq._tasks as task on task.id = job.task_id;

-- The progress of running jobs: the last report of each claim. It cannot be read on a standby, since its table is
-- unlogged. With `offset 0` each claim is looked up; without it the planner could read all jobs.
create view asyncq.progress as
select reported.job_id, reported.done, reported.total, reported.note, reported.reported_at
from asyncq._progress as reported
where exists (
    select from asyncq._jobs as job
    where job.id = reported.job_id and job.locked_by = reported.locked_by and job.lock_token = reported.lock_token offset 0)
  or exists (
    select from asyncq._batches as batch
    where batch.locked_by = reported.locked_by and batch.lock_token = reported.lock_token
      and get_bit(batch.unsettled, array_position(batch.ids, reported.job_id) - 1) = 1 offset 0);

-- Everything that is paused. Columns may be added at its end and are never removed.
--   what   everything, task, queue, limit or key
--   name   of the task, queue or limit; key is a key of this limit
create view asyncq.pauses as
select case when held.id = 0 then 'everything' else 'limit' end as what, case when held.id <> 0 then held.name end as name,
  null::text as key, held.paused_at, held.paused_by, held.paused_why as reason
from asyncq._limits as held where held.paused_at is not null
union all
select 'task', task.identifier, null, task.paused_at, task.paused_by, task.paused_why
from asyncq._tasks as task where task.paused_at is not null
union all
select case when held.id >> 48 = 1 then 'queue' else 'key' end, case when held.id >> 48 = 1 then held.key else of_all.name end,
  case when held.id >> 48 <> 1 then held.key end, held.paused_at, held.paused_by, held.paused_why
from asyncq._partitions as held join asyncq._limits as of_all on of_all.id = held.id >> 48
where held.paused_at is not null;

-- The limits of tasks, and the queues whose limit was declared or set by hand. Columns may be added at its end and are
-- never removed.
--   kind       limit or queue
--   at_once, rate, per_s, total, total_rate, total_per_s, fair   the values in force: each key may have so many jobs at once, and
--              so many starts in per_s seconds; total and total_rate are those of all keys
--   by         the members of payloads that are the key, of each task
--   declared, overrides   the values that a worker declared, and those that were set by hand and replace them
--   waiting    its jobs that have not started, counted to 1,000
--   full       its keys that have as many running jobs as they may
create view asyncq.limits as
select 'limit' as kind, held.name, held.at_once, held.rate, held.per_s, held.total, held.total_rate, held.total_per_s, held.fair,
  uses.tasks, uses.by, held.declared, held.declared_by, held.declared_at, held.overrides, held.set_by, held.set_at, held.paused_at,
  greatest(0, counted.running - counted.ended) as running, waiting.jobs as waiting, counted."full"
from asyncq._limits as held
cross join lateral (
  select coalesce(array_agg(task.identifier order by task.identifier), '{}') as tasks,
    coalesce(array_agg(distinct array_to_string(task.by, '.')) filter (where task.by is not null), '{}') as by
  from asyncq._tasks as task where task.limit_id = held.id) as uses
-- Without a settled gate the partitions are added up.
left join asyncq._partitions as gate on gate.id = held.id::bigint << 48 | 281474976710655 and gate.recount_since is null
cross join lateral (
  select coalesce(gate.running, sum(partition.running), 0)::int as running,
    count(*) filter (where partition.running >= coalesce(partition.at_once, held.at_once))::int as "full",
    coalesce((
      select sum(wakeup.freed) from asyncq._wakeups as wakeup
      where wakeup.freed > 0 and wakeup.partition >= coalesce(gate.id, held.id::bigint << 48)
        and wakeup.partition <= coalesce(gate.id, (held.id::bigint << 48 | 281474976710655) - 1)), 0)::int as ended
  from asyncq._partitions as partition
  where partition.id >= held.id::bigint << 48 and partition.id < held.id::bigint << 48 | 281474976710655) as counted
cross join lateral (
  select count(*)::int as jobs
  from (
    select from asyncq._jobs as job
    where job.partition >= held.id::bigint << 48 and job.partition < (held.id + 1)::bigint << 48
      and job.locked_by is null and job.attempts < job.max_attempts limit 1000) as ready) as waiting
where held.name is not null
  and (num_nonnulls(held.declared, held.overrides, held.paused_at) > 0 or cardinality(uses.tasks) > 0 or counted.running > counted.ended
    or waiting.jobs > 0)
union all
select 'queue', queue.key, coalesce(queue.at_once, 1), queue.rate, queue.per_s, null, null, null, false, '{}', '{}', queue.declared,
  queue.declared_by, null, queue.overrides, queue.set_by, queue.set_at, queue.paused_at,
  greatest(0, queue.running - counted.ended), waiting.jobs, (queue.running >= coalesce(queue.at_once, 1))::int
from asyncq._partitions as queue
cross join lateral (
  select coalesce(sum(wakeup.freed), 0)::int as ended from asyncq._wakeups as wakeup
  where wakeup.freed > 0 and wakeup.partition = queue.id) as counted
cross join lateral (
  select count(*)::int as jobs
  from (
    select from asyncq._jobs as job
    where job.partition = queue.id and job.locked_by is null and job.attempts < job.max_attempts limit 1000) as ready) as waiting
where queue.id >= 1::bigint << 48 and queue.id < 2::bigint << 48 and (queue.declared is not null or queue.overrides is not null);

-- The attempts that failed, also of jobs that have ended. Columns may be added at its end and are never removed.
create view asyncq.attempts as
select attempt.job_id, attempt.number, attempt.kind, attempt.started_at, attempt.ended_at, attempt.worker_id, attempt.error
from asyncq._attempts as attempt;

-- The history of jobs: those that have ended, for as long as they are kept, and discarded ones. Payloads and results
-- are not part of it. Columns may be added at its end and are never removed.
create view asyncq.history as
select ended.id, task.identifier as task_identifier, ended.queue as queue_name, ended.state, ended.priority, ended.attempts,
  ended.max_attempts, ended.run_at, ended.created_at, ended.started_at, ended.ended_at, ended.worker_id, ended.error, ended.keep_until
from asyncq._ended_jobs as ended
join asyncq._tasks as task on task.id = ended.task_id
where ended.run_at is not null
union all
select job.id, task.identifier, job.queue, 'discarded', job.priority, coalesce(job.attempts_made, job.attempts), job.max_attempts,
  job.run_at, job.created_at, null, job.updated_at, null, job.last_error, null
from asyncq._jobs as job
join asyncq._tasks as task on task.id = job.task_id
where job.locked_by is null and job.attempts >= job.max_attempts;

-- A job to be added by add_jobs: the arguments of add_job, in their order. A new option is a member of options.
create type asyncq.job_spec as (
  identifier text, payload json, queue_name text, run_at timestamptz, max_attempts smallint, job_key text, priority smallint,
  flags text[], job_key_mode text, options jsonb
);
