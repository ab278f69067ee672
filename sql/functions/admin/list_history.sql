-- Jobs of the history, the newest first, before one id (null: any): those in this state, of this task, that ended since
-- this moment; null is any. It walks along the primary key of ended jobs, or along the index of a state, down to the id
-- `down_to` (null: to the end). It finds discarded jobs that have not been removed by their index, if it is asked to.
-- It returns at most so many of each kind. The plan is made for the arguments, so that nulls cost nothing. The task of
-- a discarded job is in that index too: + 0 keeps the planner from an index of all jobs of a task.
create or replace function asyncq._list_history(
  of_state text, of_task text, since timestamptz, before_id bigint, most int, down_to bigint default null,
  with_discarded boolean default true) returns setof asyncq.history
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_custom_plan
  set enable_seqscan = off
  set enable_bitmapscan = off
  set jit = off
  as $$
declare
  wanted_task constant int := (select task.id from asyncq._tasks as task where task.identifier = of_task);
begin
  return query
    with listed as materialized (
      (select ended.id
        from asyncq._ended_jobs as ended
        where ended.run_at is not null and (of_state is null or ended.state = of_state)
          and (of_task is null or ended.task_id = wanted_task) and (since is null or ended.ended_at >= since)
          and (before_id is null or ended.id < before_id) and (down_to is null or ended.id >= down_to)
        order by ended.id desc limit most)
      union all
      (select discarded.id
        from (
          select job.id from asyncq._jobs as job
          where with_discarded and (of_state is null or of_state = 'discarded') and asyncq._is_discarded(job)
            and (of_task is null or job.task_id + 0 = wanted_task) and (since is null or job.updated_at >= since)
            and (before_id is null or job.id < before_id)
          offset 0) as discarded
        order by discarded.id desc limit most))
    select found.* from asyncq.history as found
    where found.id = any(array(select listed.id from listed))
    order by found.id desc;
end
$$;
