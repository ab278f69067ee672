-- Cases that break a law of the store: a row for each, none in a sound store. All laws are checked in one
-- snapshot, which reads all jobs.
create or replace function asyncq.violations() returns table (law text, job_id bigint, said text)
  language sql stable
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = on
  -- Compiling the statement would take longer than to run it.
  set jit = off
  -- The texts contain times, which must not depend on the settings of the session.
  set timezone = 'UTC'
  set datestyle = 'ISO, YMD'
  set intervalstyle = 'postgres'
  as $$
  -- A claim belongs to a worker that is known.
  select 'orphan_claim', job.id, format('was claimed at %s by worker %s, which is not known any more', job.locked_at, job.locked_by)
  from asyncq._all_jobs() as job
  where job.locked_by is not null and not exists (select from asyncq._workers as worker where worker.id = job.locked_by)
  union all
  -- A dead worker's claim is returned while another worker lives. That one may have just started, after all were down;
  -- and no worker is dead while the server has just returned.
  select 'dead_claim', job.id, format('is still claimed by worker %s, last seen at %s', worker.id, worker.last_seen)
  from asyncq._all_jobs() as job
  join asyncq._workers as worker on worker.id = job.locked_by
  where not asyncq._is_live(worker)
    and clock_timestamp() - greatest(worker.last_seen, asyncq._locks_since() + interval '10 seconds') > 3 * worker.lease
    and exists (
      select from asyncq._workers as other
      where asyncq._is_live(other) and clock_timestamp() - other.started_at > 3 * worker.lease)
  union all
  -- Of a serial queue at most one job runs.
  select 'broken_series', job.id, format('is one of %s running jobs of the queue %s', together.running, job.queue)
  from (
    select queue, count(*) as running from asyncq._all_jobs()
    where locked_by is not null and queue is not null and shared is null group by queue having count(*) > 1) as together
  join asyncq._all_jobs() as job on job.queue = together.queue and job.locked_by is not null
  union all
  -- A job key has one job.
  select 'shared_key', job.id, format('is one of %s jobs that have the same job key', shared.jobs)
  from (select key, count(*) as jobs from asyncq._jobs where key is not null group by key having count(*) > 1) as shared
  join asyncq._jobs as job on job.key = shared.key
  union all
  -- A partition counts the claims that run: as many as were made, less those whose end a wakeup says.
  select 'wrong_count', null, format('the partition %s counts %s running jobs, and %s run', counted.id, counted.jobs, counted.running)
  from asyncq._partition_counts() as counted
  where counted.jobs <> counted.running
  union all
  -- No claim of a partition was made while as many ran as its limit allows. A limit may have been lowered since.
  select 'over_limit', null, format('%s jobs of the partition %s run, and %s may', counted.running, counted.id, allowed.most)
  from asyncq._partition_counts() as counted
  join asyncq._limits as of_all on of_all.id = (counted.id >> 48)::smallint
  left join asyncq._partitions as held on held.id = counted.id
  cross join lateral (
    select case when counted.id = asyncq._gate(of_all.id) then of_all.total else coalesce(held.at_once, of_all.at_once) end as most)
    as allowed
  where counted.running > allowed.most
    and exists (
      select from asyncq._all_jobs() as job
      where job.locked_at > coalesce(greatest(of_all.changed_at, held.changed_at) + interval '1 min', '-infinity')
        and (job.partition = counted.id or counted.id = asyncq._gate(of_all.id)
          and job.task_id in (select task.id from asyncq._tasks as task where task.limit_id = of_all.id)))
  union all
  -- A job that could start is seen by the next fetch of a worker that knows its task, unless that is paused.
  select 'stranded_partition', null,
    format('the partition %s has a job of task %s that could start, and no wakeup', waiting.partition, waiting.task_id)
  from (
    select distinct partition, task_id, priority from asyncq._jobs as job
    where partition is not null and asyncq._is_ready(job) and asyncq._is_due(job, asyncq.clock() - interval '1 s')) as waiting
  left join asyncq._partition_counts() as counted on counted.id = waiting.partition
  left join asyncq._partitions as held on held.id = waiting.partition
  where held.paused_at is null
    and coalesce(counted.running, 0) < coalesce(held.at_once, (select at_once from asyncq._limits where id = waiting.partition >> 48), 2147483647)
    and not exists (
      select from asyncq._wakeups as wakeup
      where wakeup.partition = waiting.partition
        and (wakeup.freed > 0 or wakeup.task_id = waiting.task_id and wakeup.priority = waiting.priority))
  union all
  -- A job of a task with a limit is in a partition, or will be moved there: fetches do not look for it elsewhere.
  -- Workers find such a job among the first thousand, see _move_jobs.
  select 'unmoved_job', job.id, format('is of task %s, which has a limit, and in no partition: nobody starts or moves it', job.task_id)
  from asyncq._jobs as job
  join asyncq._tasks as task on task.id = job.task_id
  where job.partition is null and asyncq._is_ready(job) and task.limit_id is not null and task.unmoved_since is null
    and job.id not in (
      select first.id from asyncq._jobs as first where first.partition is null and asyncq._is_ready(first)
      order by first.priority, first.run_at, first.id limit 1000)
  union all
  -- The task of a job has a name.
  select 'nameless_task', job.id, format('its task %s has no name: no worker can know it', job.task_id)
  from asyncq._all_jobs() as job
  where not exists (select from asyncq._tasks as task where task.id = job.task_id)
  union all
  -- An ended job is neither a row nor in a batch.
  select 'ended_twice', job.id, format('ended as %s at %s, and is there still', ended.state, ended.ended_at)
  from asyncq._ended_jobs as ended
  join asyncq._all_jobs() as job on job.id = ended.id
  union all
  -- A job is in one place.
  select 'batched_twice', job.id, 'has a row, and is in a batch too'
  from asyncq._batched_jobs() as batched
  join asyncq._jobs as job on job.id = batched.id
  union all
  -- Each id is given once. Some ended jobs are known, and count too, also by their failed attempts.
  select 'id_not_given', newest.id, 'has an id that will be given once more: the sequence _jobs_id_seq is behind'
  from (select greatest((select max(id) from asyncq._jobs), (select max(id) from asyncq._batched_jobs()),
    (select max(id) from asyncq._ended_jobs), (select max(job_id) from asyncq._attempts)) as id) as newest
  where newest.id > coalesce(pg_sequence_last_value('asyncq._jobs_id_seq'::regclass), 0)
  union all
  -- The unique indexes of keys and queues are valid.
  select 'invalid_index', null, format('the index %s is not valid: it keeps nothing apart', broken.indexrelid::regclass)
  from pg_index as broken
  where not broken.indisvalid and broken.indrelid in ('asyncq._jobs'::regclass, 'asyncq._partitions'::regclass,
    'asyncq._key_locks'::regclass, 'asyncq._ended_jobs'::regclass, 'asyncq._requests'::regclass, 'asyncq._attempts'::regclass)
  union all
  -- Unused key locks are removed after a day.
  select 'stale_key_locks', null, format('%s key locks were not used for two days and are still there', stale.key_locks)
  from (
    select count(*) as key_locks from asyncq._key_locks where used_at < clock_timestamp() - interval '2 days') as stale
  where stale.key_locks > 0
  union all
  -- The laws about jobs that wait for others.
  select broken.law, broken.job_id, broken.said from asyncq._wait_violations() as broken
  union all
  -- A recurring item has not run in the future.
  select 'cron_ahead', null, format('the item %s has run at %s already: until then it rests', known.identifier, known.last_execution)
  from asyncq.known_crontabs as known
  where known.last_execution > asyncq.clock() + interval '1 min'
  order by 1, 2
  $$;

-- The laws of the store about jobs that wait for others, as violations shows them.
create or replace function asyncq._wait_violations() returns table (law text, job_id bigint, said text)
  language sql stable
  as $$
  -- A look follows each end of a job for which others wait.
  select 'stale_closing', line.waiter, format('waits for job %s, which ended at %s, and no worker has looked since', line.job_id, line.at)
  from asyncq._closings as line
  where line.at < clock_timestamp() - interval '1 min'
  union all
  -- A pending job waits for a job that has not ended, or a look is about to release it.
  select 'lost_waiter', job.id, 'is pending, and no end of a job will release it'
  from asyncq._jobs as job
  where job.due_at is not null
    and not exists (select from asyncq._closings as line where line.waiter = job.id)
    and not exists (
      select from asyncq._waits as edge join asyncq._all_jobs() as awaited on awaited.id = edge.job_id
      where edge.waiter = job.id)
  union all
  -- An edge leads from a pending job to one that has not ended. One that could not be deleted with its waiter ends with
  -- the other job.
  select 'lost_edge', edge.waiter, format('does not wait, and has an edge to job %s, which has ended', edge.job_id)
  from asyncq._waits as edge
  where not exists (select from asyncq._jobs as job where job.id = edge.waiter and job.due_at is not null)
    and not exists (select from asyncq._all_jobs() as job where job.id = edge.job_id)
    and not exists (select from asyncq._closings as line where line.waiter = edge.waiter)
  union all
  -- The end of a job for which another one waits is left to _end_jobs.
  select 'unmarked_job', job.id, format('has no mark, and job %s waits for it: its end would release nobody', edge.waiter)
  from asyncq._waits as edge
  join asyncq._all_jobs() as job on job.id = edge.job_id
  where job.keep_until is null
  $$;
