-- End the declaration of a limit, or of the limit of a queue, and all that was set for it by hand, also for its keys,
-- until a worker declares it again. Then nothing limits its jobs; those of a queue run one at a time again. A pause
-- stays. It is refused while a live worker is known to declare it. A worker is known by its tasks, which have the
-- limit; the limit of a queue has the name of the worker that was the first to declare these values.
create or replace function asyncq.remove_limit(name text) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  of_all asyncq._limits;
  queue asyncq._partitions;
  uses text[];
  live text;
begin
  perform asyncq._override_limit(remove_limit.name, null, null);
  select held.* into of_all from asyncq._limits as held where held.name = remove_limit.name;
  if not found then
    select held.* into queue from asyncq._partitions as held where held.id = asyncq._partition(1::smallint, remove_limit.name);
  end if;
  uses := array(select task.identifier from asyncq._tasks as task where task.limit_id = of_all.id order by task.identifier);
  select string_agg(worker.id::text, ', ' order by worker.id) into live
    from asyncq._workers as worker
    where (worker.tasks && uses or 'worker ' || worker.id = queue.declared_by) and asyncq._is_live(worker);
  if live is not null then
    raise exception using errcode = '22023', column = 'name',
      message = 'limit ' || remove_limit.name || ' cannot be removed: live workers declare it: ' || live
        || coalesce('; its tasks: ' || nullif(array_to_string(uses, ', '), ''), '');
  end if;
  if queue.id is not null then
    queue.declared := null;
    queue.declared_by := null;
    perform asyncq._store_partition(queue);
    return;
  end if;
  perform asyncq._unset_keys(of_all.id);
  select string_agg(late.identifier, ', ' order by late.identifier) into live
    from asyncq._declare_tasks((select json_agg(json_build_object('identifier', task.identifier)) from unnest(uses) as task(identifier)))
      as late(identifier);
  if live is not null then
    raise exception using errcode = '55P03', message = 'limit ' || remove_limit.name || ' cannot be removed now: another transaction locks its tasks ' || live;
  end if;
  perform asyncq._end_limits(array[of_all.id], null);
end
$$;

-- Unset what was set by hand for keys of a limit.
create or replace function asyncq._unset_keys(limit_id smallint) returns void
  language plpgsql volatile
  as $$
declare
  held asyncq._partitions;
begin
  for held in
    select partition.* from asyncq._partitions as partition
    where partition.id >= limit_id::bigint << 48 and partition.id < (limit_id + 1)::bigint << 48 and partition.overrides is not null
    order by partition.id for no key update
  loop
    held.overrides := null;
    held.set_by := null;
    held.set_at := null;
    perform asyncq._store_partition(held);
  end loop;
end
$$;
