-- The partition of a key under a limit: the number of the limit, then 48 bits of a hash of the key. It is stored, so
-- the hash is the same on each server. Nobody can choose a key that falls into the partition of another one.
create or replace function asyncq._partition(limit_id smallint, key text) returns bigint
  language plpgsql immutable strict parallel safe
  as $$
begin
  return limit_id::bigint << 48
    | ('x' || pg_catalog.encode(pg_catalog.substr(pg_catalog.sha256(pg_catalog.convert_to(key, 'UTF8')), 1, 6), 'hex'))::bit(48)::bigint;
end
$$;

-- The gate of a limit that has a total: no key has this hash but by chance.
create or replace function asyncq._gate(limit_id smallint) returns bigint
  language sql immutable strict parallel safe
  as $$ select limit_id::bigint << 48 | 281474976710655 $$;

-- The partition of a job: that of its queue, else that of its task's limit, by the key in its payload; null without
-- both.
create or replace function asyncq._partition_of(task_id int, queue text, payload json) returns bigint
  language plpgsql stable parallel safe
  as $$
begin
  if queue is not null then
    return asyncq._partition(1::smallint, queue);
  end if;
  return (
    select asyncq._partition(task.limit_id, coalesce(
      payload operator(pg_catalog.#>>) task.by, case when task.limit_id = 2 then task.identifier else '' end))
    from asyncq._tasks as task where task.id = task_id and task.limit_id is not null);
end
$$;
