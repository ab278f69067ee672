-- limit_warnings(full_s float8, most int) -> wakeups int, full_keys text[]
-- wakeups, counted to a bit more than 100,000. full_keys: keys and queues that are full and have waiting jobs, and of
-- which no job has started for so long; at most so many.
select
  (select count(*)::int from (select from asyncq._wakeups limit 100001) as first_ones) as wakeups,
  array(
    select coalesce(held.name || ' ', '') || coalesce(asyncq._key_of(claims.partition), '')
    from (
      select job.partition, max(job.locked_at) as started_at from asyncq._all_jobs() as job
      where job.locked_at is not null and job.partition is not null group by job.partition) as claims
    join asyncq._limits as held on held.id = (claims.partition >> 48)::smallint
    cross join lateral asyncq._partition_state(claims.partition, asyncq.clock()) as state
    where claims.started_at < asyncq.clock() - make_interval(secs => $1::float8)
      and state.reason = 'partition_full' and state.waiting > 0
    order by claims.started_at limit $2::int) as full_keys
