-- Ask how jobs have ended, and watch those that have not: their ends are notified on this channel, and kept for a
-- minute. Without a channel they are only kept. The function waits for a fetch, a settlement or a change that locks
-- such a job, and then sees what became of it. A later settlement finds the mark, which is keep_until, and leaves the
-- job to _settle_rest. Returns a document of each job of which something is known; one that has not ended is waiting.
create or replace function asyncq._watch(ids bigint[], channel text) returns setof text
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  as $$
#variable_conflict use_column
declare
  watchers constant jsonb := case when channel is null then '[]' else jsonb_build_array(channel) end;
  open bigint[];
  locked bigint[];
  before bigint[];
begin
  if channel !~ '^[a-z]{6}:[0-9a-f]{32}$' then
    raise exception using errcode = '22023', column = 'channel', message = 'channel is not one of a client';
  end if;
  open := array(
    select given.id from unnest(ids) as given(id)
    where not exists (select from asyncq._ended_jobs as ended where ended.id = given.id offset 0));
  -- As in _administer_jobs: a fetch for which the lock waited may have moved jobs into a batch.
  loop
    exit when open = '{}';
    perform asyncq._split_batches_of_jobs(open);
    before := locked;
    locked := array(select job.id from asyncq._jobs as job where job.id = any(open) order by job.id for no key update);
    exit when cardinality(locked) = cardinality(open) or locked = before;
  end loop;
  update asyncq._jobs as job
    set keep_until = coalesce(job.keep_until, '-infinity'), extras = asyncq._with_watchers(job.extras, watchers)
    where job.id = any(locked) and not asyncq._is_discarded(job)
      and not coalesce(job.extras -> 'watchers' @> watchers, false);
  return query
    select asyncq._end_document(ended.id, ended.task_id, ended.state, ended.attempts, ended.result, ended.error)
    from asyncq._ended_jobs as ended where ended.id = any(ids) and ended.id <> all(coalesce(locked, '{}'))
    union all
    select case when asyncq._is_discarded(job)
      then asyncq._end_document(
        job.id, job.task_id, 'discarded', coalesce(job.attempts_made, job.attempts), null, job.last_error)
      else json_build_object('id', job.id, 'state', 'waiting')::text end
    from asyncq._jobs as job where job.id = any(locked);
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
