-- The part of explain for limits: of the queue or key of a ready job, and of all jobs of its limit. A pause is said
-- before.
create or replace function asyncq._explain_partition(job asyncq._jobs, able int[], moment timestamptz)
  returns table (reason text, detail text)
  language plpgsql stable
  as $$
declare
  kind constant text := case when job.queue is not null then 'queue' else 'key' end;
  task asyncq._tasks := (select known from asyncq._tasks as known where known.id = job.task_id);
  state record;
  runs record;
  of_all record;
  ahead bigint;
begin
  if task.unmoved_since is not null and job.partition is distinct from asyncq._partition_of(job.task_id, job.queue, job.payload) then
    return query select 'moving', 'its task has got another limit, and workers are moving its jobs into their partitions';
    return;
  elsif job.partition is null then
    return;
  end if;
  select partition.* into state from asyncq._partition_state(job.partition, moment, 0) as partition;
  select count(*)::int as jobs, string_agg(claim.id::text, ', ') filter (where claim.number <= 10) as ids,
      string_agg(distinct claim.locked_by::text, ', ') filter (where claim.number <= 10) as workers,
      min(claim.locked_at) as since
    into runs
    from (
      select running.id, running.locked_by, running.locked_at, row_number() over (order by running.id) as number
      from asyncq._all_jobs() as running
      -- No index has the partitions of claims: without one that counts, none is read.
      where state.running > 0 and running.locked_at is not null and running.partition = job.partition
      order by running.id) as claim;
  if state.reason in ('backed_off', 'rate') then
    return query select state.reason, 'no job of its ' || kind || ' may start before ' || state.next_at
      || case state.reason when 'rate' then ': as many have started as its rate allows' else ', as a handler asked' end;
  end if;
  if runs.jobs >= state.may then
    return query select case kind when 'queue' then 'queue_busy' else 'partition_full' end,
      case when state.may = 1
        then 'job ' || runs.ids || ' of its ' || kind || ' runs, on worker ' || runs.workers || ' since ' || runs.since
        else runs.jobs || ' of ' || state.may || ' jobs of its ' || kind || ' run: ' || runs.ids || case when runs.jobs > 10 then ', ...' else '' end
          || ', on workers ' || runs.workers end;
  end if;
  select held.name, held.total, held.total_rate, held.total_per_s, asyncq._claims_behind(held.id) as running, gate.cell, gate.cells
    into of_all
    from asyncq._limits as held join asyncq._partitions as gate on gate.id = asyncq._gate(held.id)
    where held.id = task.limit_id;
  if of_all.running >= of_all.total then
    return query select 'partition_full', of_all.running || ' of ' || of_all.total || ' jobs of the limit ' || of_all.name || ' run';
  end if;
  if asyncq._allowance(of_all.total_rate, of_all.total_per_s, of_all.cell, of_all.cells, moment) <= 0 then
    return query select 'rate', 'no job of the limit ' || of_all.name || ' may start before '
      || asyncq._allowed_at(of_all.total_per_s, of_all.cell, of_all.cells, moment) || ': as many have started as its rate allows';
  end if;
  if runs.jobs < state.may and able is not null then
    -- Only if as many jobs as may start come first, for every worker that may take this one.
    select min(taker.first) into ahead
      from (
        select earlier.first, earlier.jobs >= state.may - runs.jobs as is_behind
        from unnest(able) as worker_id
        join asyncq._workers as worker on worker.id = worker_id
        cross join lateral (
          select count(*) as jobs, (array_agg(before.id order by before.priority, before.run_at, before.id))[1] as first
          from asyncq._heads(job.partition) as head
          cross join lateral (
            select other.id, other.priority, other.run_at from asyncq._jobs as other
            where other.partition = job.partition and other.task_id = head.task_id and other.priority = head.priority
              and asyncq._is_ready(other) and asyncq._is_due(other, moment)
              and asyncq._is_known(other, asyncq._task_ids_of(worker.tasks))
              and asyncq._is_allowed(other, worker.forbidden_flags)
              and asyncq._takes(worker, other.queue, asyncq._limit_name(head.task_id))
              and (other.priority, other.run_at, other.id) < (job.priority, job.run_at, job.id)
            order by other.run_at, other.id limit state.may - runs.jobs) as before) as earlier) as taker
      having bool_and(taker.is_behind);
    if ahead is not null then
      return query select case kind when 'queue' then 'queue_behind' else 'partition_behind' end,
        'job ' || ahead || ' of its ' || kind || ' comes first';
    end if;
  end if;
end
$$;
