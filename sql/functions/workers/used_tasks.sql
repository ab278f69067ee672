-- The ids of all tasks that something uses: a job, an ended job that is kept, or a worker that has not been forgotten.

create or replace function asyncq._used_tasks() returns int[]
  language sql volatile
  as $$
  select array(
    select job.task_id from asyncq._jobs as job
    union
    select unnest(batch.task_id) from asyncq._batches as batch
    union
    select ended.task_id from asyncq._ended_jobs as ended
    union
    select task.id from asyncq._tasks as task join asyncq._workers as worker on task.identifier = any(worker.tasks))
  $$;
