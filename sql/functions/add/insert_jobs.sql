-- Store new jobs, whose tasks are stored: those with the outcome 'added', or all if there are no outcomes. Parallel
-- arrays as in _add_jobs. Returns their ids, in the order of the specs, so that equal jobs run in it.
create or replace function asyncq._insert_jobs(
  identifiers text[], payloads json[], queue_names text[], run_ats timestamptz[], max_attempts int[], job_keys text[],
  priorities int[], flags jsonb[], metas jsonb[], extras jsonb[], outcomes text[]) returns bigint[]
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  moment constant timestamptz := asyncq.now();
  -- The task of all of them, if they have the same one: then it is looked up once.
  same constant text := case when array_remove(identifiers, identifiers[1]) = '{}' then identifiers[1] end;
  ids bigint[];
begin
  with added as (
    -- The ids are drawn in the order of the rows, the answer is sorted by them.
    insert into asyncq._jobs
      (run_at, created_at, updated_at, task_id, priority, max_attempts, queue, key, flags, payload, meta, unique_key,
        keep_until, keep_states)
    select coalesce(spec.run_at, moment), moment, moment, spec.task_id, asyncq._priority(spec.priority),
      asyncq._max_attempts(spec.max_attempts), spec.queue, spec.key, spec.flags, coalesce(spec.payload, '{}'), spec.meta,
      case when spec.extra is not null then decode(spec.extra ->> 'key', 'hex') end,
      case when spec.extra is not null then asyncq._kept_until(spec.extra, moment) end,
      case when spec.extra is not null then asyncq._kept_states(spec.extra) end
    from (
      -- An old snapshot may show two rows of one name, one of which is gone.
      select given.*, case
          when same is null then (
            select min(task.id) from asyncq._tasks as task where task.identifier = given.identifier having count(*) = 1)
          else (select min(task.id) from asyncq._tasks as task where task.identifier = same having count(*) = 1)
        end as task_id
      from unnest(
        case when same is null or payloads is null then identifiers end, payloads, queue_names, run_ats, max_attempts, job_keys,
        priorities, flags, metas, extras, outcomes)
        with ordinality as given(
          identifier, payload, queue, run_at, max_attempts, key, priority, flags, meta, extra, outcome, ord)
      where given.outcome is null or given.outcome = 'added'
      -- In their order; and with an offset, so that the task is not looked up once more for the condition.
      order by given.ord offset 0) as spec
    where spec.task_id is not null
    returning id)
  select array_agg(id order by id) into ids from added;
  if coalesce(cardinality(ids), 0)
    <> coalesce(cardinality(array_positions(outcomes, 'added')), cardinality(identifiers), 0)
  then
    raise exception using errcode = '40001',
      message = 'a task vanished while its job was added; the same call will work';
  end if;
  return ids;
end
$$;
