-- Whether a worker that knows these tasks can run a job.

create or replace function asyncq._is_known(job asyncq._jobs, task_ids int[]) returns boolean
  language sql immutable parallel safe
  as $$ select job.task_id = any(task_ids) $$;
