-- Remove idle partitions: of the next so many after an id those that count no claim, have no value that was declared
-- or set by hand, and no start that counts for a rate. Repeated calls walk over all partitions and skip locked rows.
-- The next fetch of a job of a removed partition inserts its row again. Returns the last id of this part of the walk;
-- null at the end of the walk.
create or replace function asyncq._prune_partitions(after bigint, most int) returns bigint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  as $$
declare
  walked constant bigint[] := array(
    select held.id from asyncq._partitions as held where held.id > after order by held.id limit most);
  moment constant timestamptz := asyncq.clock();
begin
  delete from asyncq._partitions as held
    where held.id = any(array(
      select idle.id from asyncq._partitions as idle
      left join asyncq._limits as of_all on of_all.id = (idle.id >> 48)::smallint
      where idle.id = any(walked) and idle.running = 0 and idle.declared is null and idle.overrides is null
        and idle.paused_at is null and coalesce(idle.not_before, '-infinity') <= moment
        -- Gates stay.
        and idle.id <> asyncq._gate((idle.id >> 48)::smallint)
        and (idle.cells is null or asyncq._allowed_at(coalesce(of_all.per_s, 0.1), idle.cell, idle.cells, moment) is null)
        and not exists (select from asyncq._wakeups as wakeup where wakeup.partition = idle.id and wakeup.freed > 0 offset 0)
      order by idle.id for no key update of idle skip locked));
  return case when cardinality(walked) = most then walked[most] end;
end
$$;
