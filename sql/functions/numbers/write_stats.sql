-- Add the numbers of a worker to those of this minute, in the order of the tasks' ids, so that no two workers wait for
-- each other. The eldest live worker also writes how many jobs there are.
create or replace function asyncq._write_stats(counted jsonb, worker_id int) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  as $$
declare
  minute constant timestamptz := date_trunc('minute', asyncq.clock());
  one asyncq._stats;
begin
  for one in
    select minute, said.took_s, said.waited_s, task.id, 60, said.completed, said.retried, said.discarded, said.cancelled,
      said.snoozed, said.took, said.waited
    from jsonb_to_recordset(counted) as said(
      task text, took_s float8, waited_s float8, completed int, retried int, discarded int, cancelled int, snoozed int, took int[],
      waited int[])
    join asyncq._tasks as task on task.identifier = said.task
    order by task.id
  loop
    perform asyncq._add_stats(one);
  end loop;
  if worker_id = (select min(worker.id) from asyncq._workers as worker where asyncq._is_live(worker)) then
    insert into asyncq._depths
    select date_bin('10 s', asyncq.clock(), '2000-01-01 00:00:00+00'), asyncq.oldest_due(), counts.scheduled, counts.available,
      counts.active, counts.retryable, counts.discarded, live.workers, live.slots, live.busy
    from (
      select
        coalesce(sum(jobs) filter (where state = 'scheduled'), 0) as scheduled,
        coalesce(sum(jobs) filter (where state = 'available'), 0) as available,
        coalesce(sum(jobs) filter (where state = 'active'), 0) as active,
        coalesce(sum(jobs) filter (where state = 'retryable'), 0) as retryable,
        coalesce(sum(jobs) filter (where state = 'discarded'), 0) as discarded
      from asyncq._counts(false)) as counts
    cross join (
      select count(*) as workers, coalesce(sum(worker.concurrency), 0) as slots,
        coalesce(sum(cardinality(worker.started_claims)), 0) as busy
      from asyncq._workers as worker where asyncq._is_live(worker)) as live
    on conflict do nothing;
  end if;
end
$$;

-- Add numbers of a minute, a quarter of an hour or an hour to its row.
create or replace function asyncq._add_stats(one asyncq._stats) returns void
  language sql volatile
  as $$
  insert into asyncq._stats as held select one.*
  on conflict (at, task_id, span_s) do update
  set took_s = held.took_s + excluded.took_s, waited_s = held.waited_s + excluded.waited_s,
    completed = held.completed + excluded.completed, retried = held.retried + excluded.retried,
    discarded = held.discarded + excluded.discarded, cancelled = held.cancelled + excluded.cancelled,
    snoozed = held.snoozed + excluded.snoozed,
    took = array(
      select pair.a + pair.b from unnest(held.took, excluded.took) with ordinality as pair(a, b, ord) order by pair.ord),
    waited = array(
      select pair.a + pair.b from unnest(held.waited, excluded.waited) with ordinality as pair(a, b, ord) order by pair.ord)
  $$;

-- Merge minutes into quarters of an hour after three hours, and these into hours after a day; remove what is older
-- than 30 days: at most so many rows of each kind. Locked rows are skipped. Of the numbers of jobs every minute stays
-- after a day. Returns how many rows went.
create or replace function asyncq._prune_stats(most int) returns bigint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  as $$
declare
  moment constant timestamptz := asyncq.clock();
  merge record;
  one asyncq._stats;
  gone bigint := 0;
  more bigint;
begin
  for merge in
    select span.from_s, span.to_s, make_interval(secs => span.to_s) as width, span.age
    from (values (60, 900, interval '3 hours'), (900, 3600, interval '1 day')) as span(from_s, to_s, age)
  loop
    for one in
      with old as (
        delete from asyncq._stats where (at, task_id, span_s) in (
          select at, task_id, span_s from asyncq._stats
          where at < date_bin(merge.width, moment, '2000-01-01 00:00:00+00') - merge.age and span_s = merge.from_s
          order by at, task_id limit most for update skip locked)
        returning at, took_s, waited_s, task_id, span_s, completed, retried, discarded, cancelled, snoozed, took, waited)
      select old.at, old.took_s, old.waited_s, old.task_id, old.span_s, old.completed, old.retried, old.discarded, old.cancelled,
        old.snoozed, old.took, old.waited
      from old order by date_bin(merge.width, at, '2000-01-01 00:00:00+00'), task_id
    loop
      one.at := date_bin(merge.width, one.at, '2000-01-01 00:00:00+00');
      one.span_s := merge.to_s;
      perform asyncq._add_stats(one);
      gone := gone + 1;
    end loop;
  end loop;
  delete from asyncq._stats where at < moment - interval '30 days';
  get diagnostics more = row_count;
  gone := gone + more;
  delete from asyncq._depths
    where at < moment - interval '1 day' and (date_trunc('minute', at) <> at or at < moment - interval '30 days');
  get diagnostics more = row_count;
  return gone + more;
end
$$;
