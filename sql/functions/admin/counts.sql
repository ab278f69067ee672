-- How many jobs are in each state. In a large table a sample estimates the waiting jobs, unless exact is true: then all
-- of it is read. is_exact: the figure is no estimate. A state without a row has no jobs.
create or replace function asyncq.counts(exact boolean default false)
  returns table (state text, jobs bigint, is_exact boolean)
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select counted.state, counted.jobs, counted.is_exact from asyncq._counts(exact) as counted $$;

-- The work of counts. A table of up to most_bytes is read, a larger one only for exact figures. Otherwise a sample of a
-- quarter of most_bytes estimates how many wait. Discarded jobs are counted by their index, up to 100,000. Running jobs
-- are counted by a look at each row, if the table has at most eight times most_bytes.
create or replace function asyncq._counts(exactly boolean, most_bytes bigint default 33554432)
  returns table (state text, jobs bigint, is_exact boolean)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  -- Compiling the statement would take longer than to run it.
  set jit = off
  as $$
#variable_conflict use_column
declare
  bytes constant bigint := pg_relation_size('asyncq._jobs');
  percent constant float8 := 25.0 * most_bytes / greatest(bytes, 1);
  counted text[] := '{}';
  discarded bigint;
begin
  if exactly or bytes <= most_bytes then
    return query select asyncq._state(job), count(*), true from asyncq._all_jobs() as job group by 1;
    return;
  end if;
  select count(*) into discarded from (
    select from asyncq._jobs as job where asyncq._is_discarded(job) limit 100000) as few;
  if discarded < 100000 then
    counted := '{discarded}';
    return query select 'discarded', discarded, true;
  end if;
  if bytes <= 8 * most_bytes then
    counted := counted || '{active,cancelled}';
    return query
      select asyncq._state(job), count(*), true from asyncq._all_jobs() as job where job.locked_by is not null group by 1;
  end if;
  -- A state that the sample has missed need not be empty: it gets a row too. The sample may miss all running jobs,
  -- which are few. So the jobs that live workers named at their last beat are the minimum.
  return query
    select estimated.state, case when estimated.state = 'active'
        then greatest(
          coalesce(sampled.jobs, 0) + (select coalesce(sum(bit_count(batch.unsettled)), 0)::bigint from asyncq._batches as batch),
          (select coalesce(sum(cardinality(worker.started_claims)), 0)::bigint from asyncq._workers as worker where asyncq._is_live(worker)))
        else coalesce(sampled.jobs, 0) end, false
    from unnest('{scheduled,available,active,retryable,cancelled,discarded}'::text[]) as estimated(state)
    left join (
      select asyncq._state(job) as state, round(count(*) * 100 / percent)::bigint as jobs
      from asyncq._jobs as job tablesample system (percent) group by 1) as sampled using (state)
    where estimated.state <> all(counted);
end
$$;
