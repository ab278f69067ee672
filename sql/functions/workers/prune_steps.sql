-- Remove the steps of jobs that have ended, among the next so many steps after a job. Repeated calls walk over all.
-- One snapshot shows each job, as a row or in a batch, while it moves from one to the other. A step is inserted while
-- its claim exists, so its job is older than the row. Locked rows are skipped.
-- Returns how many were removed, and the last job of this part of the walk; null at the end of the walk.
create or replace function asyncq._prune_steps(after bigint, most int) returns table (steps bigint, last_job bigint)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  as $$
#variable_conflict use_column
declare
  walked constant bigint[] := array(
    select step.job_id from asyncq._steps as step where step.job_id > after order by step.job_id, step.name limit most);
  gone bigint[];
  removed bigint;
begin
  gone := array(
    select distinct given.id from unnest(walked) as given(id)
    where not exists (select from asyncq._jobs as job where job.id = given.id offset 0)
      and not exists (select from asyncq._batches as batch where batch.ids @> array[given.id] offset 0));
  delete from asyncq._steps where ctid = any(array(
    select step.ctid from asyncq._steps as step where step.job_id = any(gone) for update skip locked));
  get diagnostics removed = row_count;
  return query select removed, case when cardinality(walked) = most then walked[most] end;
end
$$;
