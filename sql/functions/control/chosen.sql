-- The jobs of partitions that a worker with a choice fetches. The choice is a JSON object with four lists. A job is
-- taken if one of these is true, and its queue is not in but:
--   queues  has the name of its queue
--   whole   has the id of its task
--   free    has the id of its task, and the job has no queue
create or replace function asyncq._chosen(choice text) returns table (but bigint[], queues bigint[], whole int[], free int[])
  language sql stable
  as $$
  select asyncq._queue_partitions(given.members -> 'but'), asyncq._queue_partitions(given.members -> 'queues'),
    array(select task.id::int from json_array_elements_text(given.members -> 'whole') as task(id)),
    array(select task.id::int from json_array_elements_text(given.members -> 'free') as task(id))
  from (select choice::json as members) as given
  $$;

-- The partitions of queues, by a list of their names.
create or replace function asyncq._queue_partitions(names json) returns bigint[]
  language sql immutable
  as $$
  select array(select asyncq._partition(1::smallint, queue.name) from json_array_elements_text(names) as queue(name))
  $$;

-- Whether a fetch takes jobs of a partition and a task; the arrays are those of _chosen. It is inlined.
create or replace function asyncq._is_chosen(
    partition bigint, of_task int, but bigint[], queues bigint[], whole int[], free int[]) returns boolean
  language sql immutable
  as $$
  select partition <> all(but)
    and (partition = any(queues) or of_task = any(whole) or of_task = any(free) and partition >> 48 <> 1)
  $$;
