-- How many jobs are due, wait for their time, their retry or other jobs, run, and are discarded: a row for each task,
-- then a row for each of the fullest queues, whose task is null. Above some 20,000 rows a sample is counted (is_exact
-- is false), but for running jobs up to 20,000.
create or replace function asyncq.depths_by(queues int default 200)
  returns table (task text, queue text, due bigint, waiting bigint, running bigint, failed bigint, is_exact boolean)
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  as $$
#variable_conflict use_column
declare
  percent constant float8 := asyncq._sample_percent(20000);
  scale constant float8 := 100 / percent;
begin
  return query
    with sampled as materialized (
      select job.task_id, job.queue,
        round(scale * count(*) filter (where asyncq._state(job) = 'available'))::bigint as due,
        round(scale * count(*) filter (where asyncq._state(job) in ('scheduled', 'retryable', 'pending')))::bigint as waiting,
        0::bigint as running,
        round(scale * count(*) filter (where asyncq._is_discarded(job)))::bigint as failed
      from asyncq._jobs as job tablesample system (percent) repeatable (0)
      where job.locked_by is null
      group by job.task_id, job.queue
      union all
      select held.task_id, held.queue, 0, 0, count(*), 0
      from (
        (select job.task_id, job.queue from asyncq._jobs as job where job.locked_at is not null limit 20000)
        union all
        select member.task_id, member.queue
        from asyncq._batches as batch
        cross join lateral unnest(batch.task_id, batch.queue) with ordinality as member(task_id, queue, ord)
        where get_bit(batch.unsettled, member.ord::int - 1) = 1) as held
      group by held.task_id, held.queue)
    (select named.identifier, null::text, sum(sampled.due)::bigint, sum(sampled.waiting)::bigint, sum(sampled.running)::bigint,
      sum(sampled.failed)::bigint, percent >= 100
    from sampled join asyncq._tasks as named on named.id = sampled.task_id
    group by named.identifier order by named.identifier)
    union all
    (select null, sampled.queue, sum(sampled.due)::bigint, sum(sampled.waiting)::bigint, sum(sampled.running)::bigint,
      sum(sampled.failed)::bigint, percent >= 100
    from sampled where sampled.queue is not null
    group by sampled.queue order by sum(sampled.due + sampled.waiting + sampled.running) desc, sampled.queue limit queues);
end
$$;

-- The percentage of the pages of _jobs that have about so many rows. The sample of a percentage is repeatable: the
-- pages are the same in the next call, so its figures do not jump.
create or replace function asyncq._sample_percent(wanted int) returns float8
  language sql volatile
  as $$
  select least(100, 100.0 * wanted / greatest(1,
    pg_relation_size('asyncq._jobs') / 8192
      * coalesce((select reltuples / nullif(relpages, 0) from pg_class where oid = 'asyncq._jobs'::regclass and reltuples > 0), 50)))
  $$;
