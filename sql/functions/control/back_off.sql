-- Let no job of the partitions of these claims start for so many seconds from now. If a partition already waits longer,
-- that stays. tokens and delays_s are parallel to job_ids. Claims that the worker no longer has are ignored: a worker
-- that was declared dead must not hold back the jobs of others. The function waits for a fetch that has locked a
-- partition, at most a second: then 55P03.
-- Returns for each partition one of the claims, the time until which it waits, and the names of its limit and key.
create or replace function asyncq._back_off(worker int, job_ids bigint[], tokens bigint[], delays_s float8[])
  returns table (job_id bigint, partition_id bigint, limit_name text, key text, until timestamptz)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set lock_timeout = '1s'
  as $$
begin
  perform from asyncq._partitions as held
    where held.id in (select asked.partition_id from asyncq._partitions_of_claims(worker, job_ids, tokens, delays_s) as asked)
    order by held.id for no key update;
  -- A statement of its own, whose snapshot is newer than the locks: a claim may have ended while it waited for them.
  return query
    update asyncq._partitions as held
    set not_before = greatest(held.not_before, asyncq.now() + make_interval(secs => given.delay_s))
    from (
      select asked.partition_id, max(asked.delay_s) as delay_s, (array_agg(asked.job_id order by asked.delay_s desc))[1] as job_id
      from asyncq._partitions_of_claims(worker, job_ids, tokens, delays_s) as asked group by asked.partition_id) as given
    where held.id = any(array[given.partition_id])
    returning given.job_id, held.id, (select of_all.name from asyncq._limits as of_all where of_all.id = (held.id >> 48)::smallint),
      held.key, held.not_before;
end
$$;

-- The partitions of those of these claims that the worker still has, in rows and in batches.
create or replace function asyncq._partitions_of_claims(worker int, job_ids bigint[], tokens bigint[], delays_s float8[])
  returns table (job_id bigint, partition_id bigint, delay_s float8)
  language sql stable
  as $$
  select given.id, claim.partition, given.delay_s
  from unnest(job_ids, tokens, delays_s) as given(id, token, delay_s)
  cross join lateral (
    select job.partition from asyncq._jobs as job
    where job.id = given.id and job.locked_by = worker and job.lock_token = given.token
    union all
    select batch.partition[array_position(batch.ids, given.id)] from asyncq._batches as batch
    where batch.locked_by = worker and batch.lock_token = given.token
      and get_bit(batch.unsettled, array_position(batch.ids, given.id) - 1) = 1) as claim
  where claim.partition is not null
  $$;
