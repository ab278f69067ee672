-- Ask how jobs have ended, and watch those that have not: their ends are notified on this channel, and kept for a
-- minute. Without a channel they are only kept. A later settlement finds the mark, which is keep_until, and leaves the
-- job to _settle_rest. Returns a document of each job of which something is known; one that has not ended is waiting.
-- It is busy if it could not be marked, because another transaction locks it: the caller asks again. The function does
-- not wait for it, since one long transaction would hold up all jobs of the call.
create or replace function asyncq._watch(ids bigint[], channel text) returns setof text
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  set jit = off
  as $$
#variable_conflict use_column
declare
  watchers constant jsonb := case when channel is null then '[]' else jsonb_build_array(channel) end;
  open bigint[];
  locked bigint[];
  others bigint[];
begin
  if channel !~ '^[a-z]{6}:[0-9a-f]{32}$' then
    raise exception using errcode = '22023', column = 'channel', message = 'channel is not one of a client';
  end if;
  open := array(
    select given.id from unnest(ids) as given(id)
    where not exists (select from asyncq._ended_jobs as ended where ended.id = given.id offset 0)
      and not exists (
        select from asyncq._jobs as job where job.id = given.id and job.extras -> 'watchers' @> watchers offset 0));
  if open <> '{}' then
    perform asyncq._split_batches_of_jobs(open, skips_locked => true);
  end if;
  locked := array(
    select job.id from asyncq._jobs as job where job.id = any(open) order by job.id for no key update skip locked);
  others := array(select given.id from unnest(open) as given(id) where given.id <> all(locked));
  update asyncq._jobs as job
    set keep_until = coalesce(job.keep_until, '-infinity'), extras = asyncq._with_watchers(job.extras, watchers)
    where job.id = any(locked) and not asyncq._is_discarded(job)
      and not coalesce(job.extras -> 'watchers' @> watchers, false);
  -- Fetches have skipped jobs that were locked here.
  perform asyncq._wake_for(locked);
  -- One statement: a job that moves into a batch, or out of it, is seen in one of these places.
  return query
    select asyncq._end_document(ended.id, ended.task_id, ended.state, ended.attempts, ended.result, ended.error)
    from asyncq._ended_jobs as ended where ended.id = any(ids) and ended.id <> all(locked)
    union all
    select case when asyncq._is_discarded(job)
      then asyncq._end_document(
        job.id, job.task_id, 'discarded', coalesce(job.attempts_made, job.attempts), null, job.last_error)
      else json_build_object('id', job.id, 'state', case when job.extras -> 'watchers' @> watchers then 'waiting' else 'busy' end)::text
      end
    from asyncq._jobs as job where job.id = any(ids)
    union all
    select json_build_object('id', member.id, 'state', 'busy')::text
    from asyncq._batches as batch cross join lateral unnest(batch.ids) with ordinality as member(id, ordinal)
    where others <> '{}' and member.id = any(others) and get_bit(batch.unsettled, member.ordinal::int - 1) = 1;
end
$$;

-- The extras of a job with further watchers; unchanged if watchers is null.
create or replace function asyncq._with_watchers(extras jsonb, watchers jsonb) returns jsonb
  language sql immutable parallel safe
  as $$
  select case when watchers is null then extras else coalesce(extras, '{}') || jsonb_build_object(
    'watchers', coalesce(extras -> 'watchers', '[]') || (
      select coalesce(jsonb_agg(watcher.channel), '[]')
      from jsonb_array_elements_text(watchers) as watcher(channel)
      where not coalesce(extras -> 'watchers' ? watcher.channel, false))) end
  $$;
