-- Take away the claims of workers at once, by their ids: for workers that are known to be gone and were not yet
-- declared dead. Each claim counts as an attempt. A worker that is alive after all cancels its handlers when it is
-- notified, or at its next beat; their results are refused.
-- Returns the rows of the jobs that were running, in the order of their ids.
create or replace function asyncq.force_unlock_workers(worker_ids text[]) returns setof asyncq.jobs
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (freed.shown).* from asyncq._force_unlock_workers(worker_ids) as freed order by (freed.shown).id $$;

-- The work of force_unlock_workers: cancelled jobs end, those with a rerun run again, the others lose an attempt. The
-- workers lose their rows and are notified; one that is alive registers again. The function waits for a claim that is
-- being settled at this moment, and then finds it ended.
-- 55P03: a transaction that could not be ended locked a claim for ten seconds, or for the caller's lock_timeout.
create or replace function asyncq._force_unlock_workers(worker_ids text[])
  returns table (shown asyncq.jobs, document text)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set enable_sort = on
  as $$
#variable_conflict use_column
declare
  -- Only texts that can be the id of a worker.
  numbers constant int[] := array(
    select given::bigint from unnest(worker_ids) as given
    where case when given ~ '^[1-9][0-9]{0,9}$' then given::bigint <= 2147483647 end);
  forgotten int[];
  held bigint[];
  cancelled bigint[];
  patience constant text := current_setting('lock_timeout');
  holder record;
begin
  perform set_config('lock_timeout', '10s', true) from pg_settings
    where name = 'lock_timeout' and setting::int not between 1 and 10000;
  begin
    forgotten := array(
      select worker.id from asyncq._workers as worker where worker.id::text = any(worker_ids) order by worker.id for update);
    delete from asyncq._workers where id = any(forgotten);
    perform pg_notify('asyncq:cancel', gone.id || ' 0 0') from unnest(forgotten) as gone(id);
    -- They lock claims for as long as they are open.
    perform asyncq._end_transactions(numbers);
    perform asyncq._split_batches(array(
      select batch.ctid from asyncq._batches as batch where batch.locked_by::text = any(worker_ids)
      order by batch.locked_by, batch.lock_token for update));
    held := array(
      select job.id from asyncq._jobs as job where job.locked_by = any(numbers) and job.locked_at is not null
      order by job.id for update);
  exception when lock_not_available then
    select activity.pid, activity.usename, activity.application_name as name into holder
      from pg_stat_activity as activity
      where activity.datname = current_database()
        and substring(activity.application_name from '^asyncq worker ([0-9]+) ') = any(worker_ids)
      order by activity.pid limit 1;
    raise exception using errcode = '55P03', message = case
      when holder.pid is null then 'no worker was unlocked: another transaction holds a claim of theirs; try again'
      else format('no worker was unlocked: the transaction "%s" (server process %s, role %s) holds a job; to end it, role %s has '
        'to be a member of that role, or of pg_signal_backend', holder.name, holder.pid, holder.usename, current_user)
    end;
  end;
  perform set_config('lock_timeout', patience, true);
  cancelled := array(select job.id from asyncq._jobs as job where job.id = any(held) and job.cancelled_at is not null);
  return query select touched.shown, touched.document from asyncq._shown(cancelled) as touched;
  perform asyncq._release(
    held, attempts => array_fill(1, array[cardinality(held)]), kinds => array_fill('lost'::text, array[cardinality(held)]));
  if cardinality(held) > 0 then
    perform asyncq._wake_workers();
  end if;
  return query select touched.shown, touched.document from asyncq._shown(held) as touched;
end
$$;
