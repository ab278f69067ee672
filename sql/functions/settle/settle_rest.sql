-- Settle the runs that settle_completed does not: failed, snoozed or interrupted ones, and claims that are returned.
-- Also good ends that it skipped, because the job was cancelled, has a rerun, is to be kept, or was locked.
-- The batches of these claims are split. A claim is settled only if this worker still has it; rows and batches that
-- another transaction locks are skipped. Lock order: batches, jobs by id, queues. The caller sorts ids.
-- Returns each id once, with the ending of _release, or with 'held' (another transaction locks it: try again) or 'lost'
-- (this worker no longer has the claim). A row without an id says that there are new closings: the worker has to look.
-- Older ones do not count: another transaction may hold their waiters for hours.
create or replace function asyncq._settle_rest(
  worker int, ids bigint[], tokens bigint[], ends text[], attempts int[], delays_s float8[], errors text[], interruptions int[],
  kinds text[], durations_s float8[], results text[], payloads text[])
  returns table (id bigint, ending text)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  -- Each row is found by its id, even if nothing is known of the table. The workers disable sorts for fetches.
  set enable_seqscan = off
  set enable_sort = on
  as $$
#variable_conflict use_column
declare
  last_closing constant bigint := coalesce((select max(line.id) from asyncq._closings as line), 0);
  held bigint[];
begin
  -- Most of these claims are rows. To plan the two functions of a split each time would take longer than all the rest.
  if exists (select from asyncq._batches where locked_by = worker and lock_token = any(tokens)) then
    perform asyncq._split_batches_of_worker(worker, array(select distinct unnest(tokens)));
  end if;
  -- Null for each claim that is not locked here. The fence is in the node that locks: it is checked on the newest row.
  held := array(
    select (
      select job.id from asyncq._jobs as job
      where job.id = given.id and job.locked_by = worker and job.lock_token = given.token
      for update skip locked)
    from unnest(ids, tokens) as given(id, token));
  return query
    select ended.id, ended.ending
    from asyncq._release(
      held, ends, attempts, delays_s, errors, interruptions, kinds, durations_s, results => results, payloads => payloads) as ended;
  if array_position(held, null) is not null then
    return query
      select given.id, case when
          exists (
            select from asyncq._jobs as job
            where job.id = given.id and job.locked_by = worker and job.lock_token = given.token)
          or exists (
            select from asyncq._batches as batch
            cross join lateral (select width_bucket(given.id, batch.ids)) as member(ordinal)
            where batch.locked_by = worker and batch.lock_token = given.token
              and case when batch.ids[member.ordinal] = given.id then get_bit(batch.unsettled, member.ordinal - 1) = 1 end)
        then 'held' else 'lost' end
      from unnest(ids, tokens, held) as given(id, token, held)
      where given.held is null;
  end if;
  if exists (select from asyncq._closings as line where line.id > last_closing) then
    return query select null::bigint, 'closings';
  end if;
end
$$;

-- Return the claims of fetches whose answer was lost. Their jobs never started, and no rescue finds them, since their
-- worker is alive. Jobs that were cancelled meanwhile end. Rows and batches that another transaction locks are skipped.
create or replace function asyncq._return_lost(worker int, tokens bigint[]) returns setof bigint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  -- The worker's connection disables sorts for fetches.
  set enable_seqscan = off
  set enable_sort = on
  as $$
#variable_conflict use_column
begin
  perform asyncq._split_batches_of_worker(worker, tokens);
  return query
    select id from asyncq._release(array(
      select id from asyncq._jobs where locked_by = worker and locked_at is not null and lock_token = any(tokens)
      order by id for update skip locked));
end
$$;
