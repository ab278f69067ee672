-- fetch_partitions(worker int, token bigint, max int, task_ids text, forbidden_flags text[], after_priority int2, after_run_at timestamptz, after_id bigint, now timestamptz, since_s float8, batch_from int, unbatched_ids text, choice text) -> asyncq._claim.*, ids bytea, task_ids bytea, queues text, limits bytea, priorities bytea, due bytea, created bytea, payloads text, metas text, partitions bytea, start_within_s float8, again_s float8
-- Claims up to max due jobs of partitions, in order of priority, run_at, id; of each partition as many as its limit
-- allows. Of jobs without a partition that come first it leaves as much room as they need; fetch_jobs claims them. The
-- answer is that of fetch_jobs. All conditions are in the nodes that lock, as there. Jobs of a partition that are
-- locked here and left are invisible to nobody: no other fetch reads them meanwhile. _begin_partitions names an
-- exception.
--
-- again_s: after so many seconds a worker that got fewer jobs than it wanted has to fetch again; null: nothing is left.
-- partitions are those of the jobs of the batch. start_within_s: rates count some of these claims, and so many seconds
-- after the fetch began they have to start at the latest; null: no rate counts any.
--
-- choice: whose jobs the worker takes, see _chosen; null: all. The wakeups of others are not touched.
with
chosen_here as materialized (select but, queues, whole, free from asyncq._chosen($13)),
-- The tasks and priorities that were woken for this worker, with the limit of all jobs of the task.
kinds_here as materialized (
  select kind.task_id, kind.priority, kind.gate, kind.total, kind.total_rate, kind.total_per_s
  from (select $4::text::int[] as task_ids offset 0) as worker
  cross join lateral asyncq._woken_kinds(worker.task_ids) as kind),
-- Their gates, locked. Another fetch that holds one decides about it: this one leaves the wakeups of its tasks.
gates as materialized (
  select gate.*, held.*
  from (select distinct gate as id, total, total_rate, total_per_s from kinds_here where gate is not null) as gate
  cross join lateral (
    select running, recount_since, not_before, cell, cells from asyncq._partitions where id = gate.id for no key update skip locked) as held),
heard_gates as materialized (
  delete from asyncq._wakeups
  where ctid = any(array(select ended.row_ctid from gates cross join lateral (
      select wakeup.ctid as row_ctid from asyncq._wakeups as wakeup
      where wakeup.task_id = -(gates.id >> 48)::int and wakeup.priority = 0 and wakeup.at <= coalesce($9, asyncq.now())
      order by wakeup.at limit 5000) as ended))
  returning partition, freed),
open_gates as materialized (
  select gates.*, counted, ended.freed is not null as is_heard,
    case when not_before > coalesce($9, asyncq.now()) then 0 else greatest(0, least(
      $3::int, total - counted, asyncq._allowance(total_rate, total_per_s, cell, cells, coalesce($9, asyncq.now())))) end as room
  from gates
  left join (select partition, sum(freed)::int as freed from heard_gates group by partition) as ended on ended.partition = gates.id
  cross join lateral (
    select case when recount_since is null then running - coalesce(ended.freed, 0) else asyncq._recounted(gates.id) end as counted offset 0) as now_running),
-- The first wakeups that are due. Those for other workers are not touched.
first_wakeups as materialized (
  select woken.row_ctid, woken.partition, woken.task_id, woken.priority, woken.at, woken.job_id, kind.gate
  from (
    select task_id, priority, gate, chosen_here.* from kinds_here cross join chosen_here
    where gate is null or gate in (select id from open_gates where room > 0)) as kind
  cross join lateral (
    select wakeup.ctid as row_ctid, partition, task_id, priority, at, job_id from asyncq._wakeups as wakeup
    where wakeup.task_id = kind.task_id and wakeup.priority = kind.priority and wakeup.at <= coalesce($9, asyncq.now())
      and asyncq._are_allowed(wakeup.flags, $5)
      and ($13::text is null or asyncq._is_chosen(wakeup.partition, wakeup.task_id, but, queues, whole, free))
    order by wakeup.at, wakeup.job_id limit least(2 * $3::int, $3::int + 100) + 20) as woken
  order by woken.priority, woken.at, woken.job_id limit least(2 * $3::int, $3::int + 100) + 20),
-- If they belong to few partitions, which were woken often, there may be others behind them.
further_wakeups as materialized (
  select woken.row_ctid, woken.partition, woken.task_id, woken.priority, woken.at, woken.job_id, kind.gate
  from (
    select distinct task_id, priority, gate, chosen_here.* from first_wakeups cross join chosen_here
    where (select count(*) from first_wakeups) >= least(2 * $3::int, $3::int + 100) + 20
      and (select count(distinct partition) from first_wakeups) < $3::int / 2) as kind
  cross join lateral (
    select wakeup.ctid as row_ctid, partition, task_id, priority, at, job_id from asyncq._wakeups as wakeup
    where wakeup.task_id = kind.task_id and wakeup.priority = kind.priority and wakeup.at <= coalesce($9, asyncq.now())
      and asyncq._are_allowed(wakeup.flags, $5)
      and ($13::text is null or asyncq._is_chosen(wakeup.partition, wakeup.task_id, but, queues, whole, free))
    order by wakeup.at, wakeup.job_id limit 5000) as woken),
wakeups as not materialized (
  select first_wakeups.* from first_wakeups where not exists (select from further_wakeups) union all
  select further_wakeups.* from further_wakeups),
-- Their partitions, each with the tasks and priorities that were woken. The place of a partition is that of its first
-- job: the job of its wakeup may have left. If the wakeup is later, the partition has had its turn.
woken as materialized (
  select partition as id, (array_agg(priority))[1] as priority, (array_agg(at))[1] as at, (array_agg(job_id))[1] as job_id,
    array_agg(task_id) as task_ids, array_agg(priority) as priorities, array_agg(gate) as gates, bool_or(has_job) as has_job
  from (
    -- Sorted once for all arrays, which begin with the first of them.
    select partition, task_id, priority, gate, greatest(at, run_at) as at, coalesce(id, job_id) as job_id, id is not null as has_job from (
      select distinct on (partition, task_id, priority) partition, task_id, priority, gate, at, job_id
      from wakeups order by partition, task_id, priority, at, job_id) as kind
    left join lateral asyncq._first_partitioned(partition, task_id, priority, $5, coalesce($9, asyncq.now()), 1) on true
    order by partition, id is null, priority, at, job_id offset 0) as kind
  group by partition),
limits as materialized (
  select array_agg(held.id order by held.id) as ids, array_agg(at_once order by held.id) as at_once, array_agg(rate order by held.id) as rate,
    array_agg(per_s order by held.id) as per_s, array_agg(fair order by held.id) as fair
  from (select distinct (id >> 48)::smallint as id from woken) as used
  cross join lateral (select id, fair, at_once, rate, per_s from asyncq._limits where id = used.id) as held),
-- most is how many jobs a partition takes at first, jobs the sum of these up to it. Those without a job take none.
wanted as materialized (
  select sized.*, sum(most) over (order by priority, at, job_id, id rows unbounded preceding) as jobs
  from (
    select woken.*, limits.fair[place] as fair, limits.at_once[place] as limit_at_once, limits.rate[place] as rate, limits.per_s[place] as per_s,
      case when has_job then least(limits.at_once[place], limits.rate[place], greatest(1, $3::int / least(20, (select count(*) from woken))))::int else 0 end as most
    from woken cross join limits cross join lateral (select width_bucket((woken.id >> 48)::smallint, limits.ids) as place) as of_limit) as sized
  order by priority, at, job_id, id),
-- The first jobs without a partition: some may come first.
first_plain as materialized (
  select plain.priority, plain.run_at, plain.id
  from (select asyncq._plain_tasks($4::text::int[]) as task_ids, coalesce($9, asyncq.now()) as moment offset 0) as worker
  cross join lateral asyncq._first_plain(
    worker.task_ids, $5, $6, $7, $8, worker.moment, worker.moment - make_interval(secs => $10), $3) as plain
  where exists (select from wanted)
  limit $3),
-- How many of the best may be jobs of partitions.
share(jobs) as materialized (
  select $3::int - count(*) filter (where id is not null)
  from (
    select id from (
      select wanted.priority, wanted.at, wanted.job_id, null::bigint as id from wanted cross join lateral generate_series(1, most)
      where exists (select from first_plain)
      union all
      select priority, run_at, id, id from first_plain) as both_kinds
    order by priority, at, job_id limit $3) as best),
-- The lock of a partition. Another fetch that holds it decides about it; its wakeups stay. A partition without a row is
-- begun below, once jobs of it are locked.
seen as materialized (
  select wanted.id, priority, at, job_id, task_ids, priorities, gates, fair, coalesce(own_rate, rate) as rate, coalesce(own_per_s, per_s) as per_s,
    most, running is null as is_new, coalesce(running, 0) as was, coalesce(held.at_once, limit_at_once) as at_once,
    not_before, is_paused, cell, cells, weight
  from wanted
  cross join lateral (
    select locked.* from (
      select running, at_once, rate as own_rate, per_s as own_per_s, not_before, paused_at is not null as is_paused, cell, cells, weight
      from asyncq._partitions as held where held.id = wanted.id
      for no key update skip locked) as locked
    union all
    select null, null, null, null, null, false, null, null, 1
    where not exists (select from asyncq._partitions as held where held.id = wanted.id offset 0)
    limit 1) as held
  limit (select count(*) from wanted where jobs = 0 or jobs - most < (select jobs from share))),
-- A claim's end counts when its wakeup is deleted, so it counts once. No part of this statement is joined to another
-- one, but gates, which are few, and parts of one row: a plan that was made while the tables were empty would compare
-- each row with each. Rows are looked up in hashes (`is true` keeps that from being a join), or in sorted arrays.
heard as materialized (
  delete from asyncq._wakeups
  where ctid = any(array(
    select row_ctid from wakeups where (partition in (select id from seen where not is_new)) is true
    union all
    -- Those of other tasks that count ended claims: they are inserted again without the count.
    select wakeup.ctid from asyncq._wakeups as wakeup where wakeup.partition = any(array(select id from seen where not is_new)) and wakeup.freed > 0))
  returning partition, freed, ctid as row_ctid, at, job_id, task_id, priority, flags),
ended as materialized (
  select array_agg(partition order by partition) as partitions, array_agg(freed order by partition) as freed
  from (select partition, sum(freed)::int as freed from heard group by partition having sum(freed) > 0) as by_partition),
room as (
  select seen.*, of_partition.freed, was - of_partition.freed as running, allowance,
    case when is_paused or not_before > coalesce($9, asyncq.now()) then 0 when most = 0 then 0
      else greatest(0, least(
        ceil(greatest(most, (select jobs / count(*) from share, seen where most > 0 group by jobs)) * weight / (select avg(weight) from seen where most > 0))::int,
        at_once - was + of_partition.freed, allowance)) end as allowed
  from seen
  cross join ended
  cross join lateral (
    select case when ended.partitions[place] = seen.id then ended.freed[place] else 0 end as freed,
      case when rate is not null then asyncq._allowance(rate, per_s, cell, cells, coalesce($9, asyncq.now())) end as allowance
    from width_bucket(seen.id, ended.partitions) as place offset 0) as of_partition
  offset 0),
-- The rows come in the order of wanted.
shared_out as materialized (
  select room.*, greatest(0, least(allowed, (select jobs from share) - sum(allowed) over (rows unbounded preceding) + allowed))::int as cut
  from room),
may as materialized (
  select shared_out.*, cut as jobs from shared_out where gates[1] is null
  union all
  select shared_out.*, greatest(0, least(cut, (select open_gates.room from open_gates where open_gates.id = gates[1])
      - sum(cut) over (partition by gates[1] order by priority, at, job_id, id) + cut))::int
  from shared_out where gates[1] is not null),
-- Jobs are locked by their ids, since one may have a newer version. `is true` keeps the index of partitions from it.
found as materialized (
  select may.id as partition, may.is_new, may.at_once is distinct from 1 as is_shared, job.*
  from may
  cross join lateral (
    select job.* from (
      select first.id from (
        select task_ids[1] as task_id, priorities[1] as priority union all
        select task_id, priority from unnest(task_ids[2:], priorities[2:], gates[2:]) as kind(task_id, priority, gate)
        where cardinality(task_ids) > 1 and gate is not distinct from gates[1]
        -- Of one at a time the first job comes first, although its wakeup is behind those that were looked at.
        union all
        select head.task_id, head.priority from asyncq._heads(may.id) as head join kinds_here as kind using (task_id, priority)
        where may.at_once = 1 and (select count(*) from first_wakeups) >= least(2 * $3::int, $3::int + 100) + 20 and kind.gate is not distinct from gates[1]) as kind
      cross join lateral asyncq._first_partitioned(may.id, kind.task_id, kind.priority, $5, coalesce($9, asyncq.now()),
        case when may.at_once = 1 then 1 else least(2 * may.jobs + 2, may.jobs + 20) end) as first
      -- Of one at a time none overtakes a job that another transaction locks.
      order by kind.priority, first.run_at, first.id limit case when may.at_once = 1 then 1 end) as first
    cross join lateral (
      select id, task_id, priority, run_at, job.ctid as row_ctid,
        asyncq._is_batchable(job) and not asyncq._is_known(job, (select $12::text::int[])) as is_batchable
      from asyncq._jobs as job
      where job.id = first.id and (job.partition = may.id) is true
        and asyncq._is_ready(job) and asyncq._is_due(job, coalesce($9, asyncq.now()))
        and asyncq._is_known(job, (select $4::text::int[])) and asyncq._is_allowed(job, $5)
      for update skip locked) as job
    limit may.jobs) as job
  where may.jobs > 0),
brought as materialized (
  select array_agg(partition order by partition) as partitions, array_agg(jobs order by partition) as jobs
  from (select partition, count(*)::int as jobs from found group by partition) as by_partition),
all_seen as not materialized (
  select may.*, case when brought.partitions[place] = may.id then brought.jobs[place] else 0 end as got
  from may
  cross join brought
  cross join lateral width_bucket(may.id, brought.partitions) as place),
-- One whose job another transaction locks is begun too, so that it delays no others. So is one whose job has ended
-- before: a fetch deletes wakeups only of partitions whose row it has locked.
new as materialized (
  select id, got, rate, per_s, (
      select job.queue from asyncq._jobs as job
      where job.partition = all_seen.id and all_seen.id < 2::bigint << 48 and asyncq._is_ready(job)
        and asyncq._is_due(job, coalesce($9, asyncq.now())) limit 1) as key
  from all_seen where is_new and (jobs > 0 or most = 0)),
begun as materialized (
  select unnest(asyncq._begin_partitions(ids, running, keys, cell, cells)) as id
  from (
    select array_agg(id) as ids, array_agg(got) as running, array_agg(key) as keys,
      array_agg(case when rate is not null then asyncq._cell(per_s, coalesce($9, asyncq.now())) end) as cell,
      array_agg(case when rate is not null then asyncq._spent(per_s, null, null, got, coalesce($9, asyncq.now()))::text end) as cells
    from new having count(*) > 0) as given),
taken as materialized (select found.* from found where (not is_new or partition in (select id from begun)) is true),
-- The wakeups of begun partitions, and those of taken jobs behind the first wakeups: later fetches would find nothing.
heard_too as (
  delete from asyncq._wakeups
  where ctid = any(array(
    select row_ctid from wakeups where (partition in (select id from begun)) is true
    union all
    select place.row_ctid from taken cross join lateral (
      select wakeup.ctid as row_ctid from asyncq._wakeups as wakeup
      where (wakeup.task_id, wakeup.priority, wakeup.at, wakeup.job_id, wakeup.partition, wakeup.freed)
        = (taken.task_id, taken.priority, taken.run_at, taken.id, taken.partition, 0) offset 0) as place
    where (select count(*) from first_wakeups) >= least(2 * $3::int, $3::int + 100) + 20))),
mine as not materialized (
  select all_seen.* from all_seen where (not is_new or id in (select id from begun)) is true),
-- What is written of partitions and gates.
counts as materialized (
  select id, running + got as counted, running + got <> was or rate is not null and got > 0 as is_changed,
    case when rate is null then cell else asyncq._newest_cell(per_s, cell, coalesce($9, asyncq.now())) end as cell,
    case when rate is null then cells else asyncq._spent(per_s, cell, cells, got, coalesce($9, asyncq.now())) end as cells
  from mine
  where not is_new
  union all
  select id, counted + claims, counted + claims <> running or total_rate is not null and claims > 0,
    case when total_rate is null then cell else asyncq._newest_cell(total_per_s, cell, coalesce($9, asyncq.now())) end,
    case when total_rate is null then cells else asyncq._spent(total_per_s, cell, cells, claims, coalesce($9, asyncq.now())) end
  from (
    select open_gates.*, (select coalesce(sum(got), 0)::int from mine where mine.gates[1] = open_gates.id) as claims from open_gates) as passed),
-- By their ids: a version that is newer than the snapshot was locked, and is not found by its place.
changes as materialized (
  select array_agg(id order by id) as ids, array_agg(counted order by id) as counted, array_agg(cell order by id) as cell,
    array_agg(cells::text order by id) as cells
  from counts where is_changed),
written as (
  update asyncq._partitions
  set running = (select counted from changes)[width_bucket(id, (select ids from changes))],
    cell = (select cell from changes)[width_bucket(id, (select ids from changes))],
    cells = ((select cells from changes)[width_bucket(id, (select ids from changes))])::int[]
  where id = any((select ids from changes)::bigint[])),
-- Where more could start, now or later, a wakeup stays. A full partition has none: the end of one of its jobs wakes it.
-- One that waits for a time has one wakeup at that time.
kept as (
  insert into asyncq._wakeups (at, partition, job_id, task_id, priority, flags)
    select later.at, later.id, later.job_id, later.task_id, later.priority, later.flags
    from (
      select mine.id, mine.freed, next.id as job_id, kind.task_id, kind.priority, next.flags,
        case
          when waits_until is not null then waits_until
          when not is_emptied and fair or not kind.is_woken then asyncq.clock()
          -- Another transaction locks the job, and may leave it as it is.
          when is_emptied and is_allowed and next.is_due then asyncq.clock() + interval '20 ms'
          else next.run_at end as at
      from (
        select mine.*, got < jobs or most = 0 as is_emptied, case
            when not_before > coalesce($9, asyncq.now()) then not_before
            when allowance <= got then greatest(
              asyncq._allowed_at(per_s, asyncq._newest_cell(per_s, cell, coalesce($9, asyncq.now())),
                asyncq._spent(per_s, cell, cells, got, coalesce($9, asyncq.now())), coalesce($9, asyncq.now())),
              coalesce($9, asyncq.now()) + interval '1 ms') end as waits_until
        from mine where not is_paused and running + got < coalesce(at_once, 2147483647)) as mine
      -- The end of a claim does not see what is added meanwhile, and the partition was full for the fetch that saw it.
      cross join lateral (
        select task_id, priority, true as is_woken from unnest(mine.task_ids, mine.priorities) as woken(task_id, priority)
        union all
        select head.task_id, head.priority, false from asyncq._heads(mine.id) as head
        where mine.freed > 0 and (head.task_id, head.priority) not in (
          select task_id, priority from unnest(mine.task_ids, mine.priorities) as woken(task_id, priority))) as kind
      cross join lateral (
        -- One that became due since this fetch began may share a wakeup with an earlier one.
        (select job.id, job.run_at, null::jsonb as flags, true as is_allowed,
            asyncq._is_due(job, coalesce($9, asyncq.now())) as is_due
          from asyncq._jobs as job
          where job.partition = mine.id and job.task_id = kind.task_id and job.priority = kind.priority
            and asyncq._is_ready(job) and asyncq._is_due(job, greatest(coalesce($9, asyncq.now()), asyncq.clock()))
            and (job.id in (select id from found)) is not true and (not is_emptied or asyncq._is_allowed(job, $5))
          order by job.run_at, job.id limit 1)
        union all
        -- Those that this worker may not run. It has looked behind them.
        (select distinct on (job.flags) job.id, job.run_at, job.flags, false, true from asyncq._jobs as job
          where $5 is not null and is_emptied
            and job.partition = mine.id and job.task_id = kind.task_id and job.priority = kind.priority
            and asyncq._is_ready(job) and asyncq._is_due(job, coalesce($9, asyncq.now())) and not asyncq._is_allowed(job, $5)
          order by job.flags, job.run_at, job.id)) as next) as later
    -- One wakeup for a job is enough. Only the snapshot may still show it: a fetch that found the partition full has
    -- deleted it then, and this one has heard of ends since.
    where later.freed > 0 or not exists (
      select from asyncq._wakeups as wakeup
      where (wakeup.task_id, wakeup.priority, wakeup.at, wakeup.job_id, wakeup.partition, wakeup.freed)
          = (later.task_id, later.priority, later.at, later.job_id, later.id, 0)
        and wakeup.flags is not distinct from later.flags and (wakeup.ctid in (select row_ctid from wakeups)) is not true offset 0)
  union all
  select at, partition, job_id, task_id, priority, flags from heard where (row_ctid in (select row_ctid from wakeups)) is not true
  union all
  -- A gate that waits for its rate. Other fetches look at its tasks when this wakeup is due.
  select greatest(asyncq._allowed_at(total_per_s, counts.cell, counts.cells, coalesce($9, asyncq.now())), coalesce($9, asyncq.now()) + interval '1 ms'),
    open_gates.id, 0, -(open_gates.id >> 48)::int, 0, null
  from open_gates cross join lateral (select cell, cells, is_changed from counts where counts.id = open_gates.id) as counts
  where total_rate is not null and (is_heard or counts.is_changed)
    and asyncq._allowance(total_rate, total_per_s, counts.cell, counts.cells, coalesce($9, asyncq.now())) <= 0
  returning at, task_id, flags),
chosen as materialized (select array_agg(row_ctid) as row_ctids from taken where is_batchable having count(*) >= $11::int),
batched as (
  delete from asyncq._jobs where ctid = any((select row_ctids from chosen)::tid[])
  returning id, task_id, partition, queue, max_attempts, priority, run_at, created_at, meta, payload),
batch as (
  insert into asyncq._batches
      (lock_token, locked_at, locked_by, unsettled, ids, run_at, created_at, task_id, priority, max_attempts, partition, queue, meta, payload)
    select $2, coalesce($9, asyncq.now()), $1, repeat('1', count(*)::int)::varbit, array_agg(id), array_agg(run_at),
      array_agg(created_at), array_agg(task_id), array_agg(priority), array_agg(max_attempts),
      array_agg(partition), case when count(queue) > 0 then array_agg(queue) end,
      case when count(meta) > 0 then array_agg(meta) end, array_agg(payload)
    from (
      select id, run_at, created_at, task_id, priority, max_attempts, partition, queue, meta, payload
      from batched order by id) as in_order
    having count(*) > 0
  returning ids, task_id, partition, queue, max_attempts, priority, run_at, created_at, meta, payload),
moved as (
  select unnest(array(select id from taken where is_batchable except select id from batched)) as id
  where (select count(*) from batched) < (select cardinality(row_ctids) from chosen)),
claimed as (
  update asyncq._jobs as job
  set locked_by = $1, locked_at = coalesce($9, asyncq.now()), lock_token = $2,
    shared = case when queue is not null then nullif((id in (select id from taken where is_shared)) is true, false) end
  where id = any(array(
    select id from taken where not is_batchable or not exists (select from chosen)
    union all
    select id from moved))
  returning (asyncq._claimed(job)).*),
batched_claims as (
  select array_send(ids) as ids, array_send(task_id) as task_ids, array_to_json(queue)::text as queues,
    array_send(max_attempts) as limits, array_send(priority) as priorities, array_send(run_at) as due,
    array_send(nullif(created_at, run_at)) as created, array_to_string(payload, chr(30)) as payloads,
    array_to_string(meta::text[], chr(30), '') as metas, array_send(partition) as partitions
  from batch)
select claimed.*, batched_claims.*, asyncq._start_within((
  select min(least(case when rate is not null then per_s end, case when total_rate is not null then total_per_s end))
  from mine left join open_gates on open_gates.id = gates[1] where got > 0)) as start_within_s, case
    when (select count(*) from taken) >= $3 then null
    -- This fetch has changed something, and has left wakeups that are due.
    when exists (select from mine)
      and ((select count(*) from first_wakeups) >= least(2 * $3::int, $3::int + 100) + 20
        or (select count(*) from wanted) > (select count(*) from may)
        or exists (
          select from kept
          where at <= asyncq.clock() and flags is null and (task_id in (select task_id from kinds_here)) is true)) then 0
    -- Another one holds a partition or a gate, or has begun a partition.
    when exists (select from kinds_here where gate is not null and (gate in (select id from gates)) is not true)
      or (select count(*) from wanted) > (select count(*) from may)
      or exists (select from found where is_new and (partition in (select id from begun)) is not true) then 0.005
  end::float8 as again_s
from (select) as always left join (claimed full join batched_claims on false) on true
