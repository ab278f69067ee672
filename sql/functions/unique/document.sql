-- A job as the client's `Job`, in JSON: times in UTC, flags sorted, the payload as text, not a digit changed. One value, whatever
-- codecs the caller's connection has.

create or replace function asyncq._document(job asyncq._jobs) returns json
  language sql stable parallel safe
  set search_path = pg_catalog, pg_temp
  as $$
  select json_build_object(
    'id', job.id,
    'task', (select identifier from asyncq._tasks where id = job.task_id),
    'queue', job.queue,
    'payload', job.payload::text,
    'priority', job.priority,
    'run_at', asyncq._utc(job.run_at),
    'attempts', coalesce(job.attempts_made, job.attempts),
    'max_attempts', job.max_attempts,
    'last_error', job.last_error,
    'created_at', asyncq._utc(job.created_at),
    'updated_at', asyncq._utc(job.updated_at),
    'key', job.key,
    'locked_at', asyncq._utc(job.locked_at),
    'locked_by', job.locked_by::text,
    'revision', job.revision,
    'flags', array(select name from jsonb_object_keys(job.flags) as name order by name collate "C"),
    'meta', job.meta,
    'state', asyncq._state(job),
    'interruptions', job.interruptions)
  $$;
