-- End jobs in this state, whose rows the caller has locked: they are deleted, and kept as ended jobs if requested. An
-- id is used twice if its sequence was not copied to another server. The later job is kept: an error would stop all.
create or replace function asyncq._end_jobs(ids bigint[], end_state text) returns void
  language plpgsql volatile
  as $$
#variable_conflict use_column
begin
  insert into asyncq._ended_jobs (id, created_at, ended_at, keep_until, task_id, state, unique_key)
    select job.id, job.created_at, asyncq.now(), job.keep_until, job.task_id, end_state, job.unique_key
    from asyncq._jobs as job
    where job.id = any(ids) and job.keep_until > asyncq.clock() and end_state = any(job.keep_states)
    on conflict (id) do update set created_at = excluded.created_at, ended_at = excluded.ended_at, keep_until = excluded.keep_until,
      task_id = excluded.task_id, state = excluded.state, unique_key = excluded.unique_key;
  delete from asyncq._jobs as job where job.id = any(ids);
end
$$;

-- Cancel running jobs, whose rows the caller has locked. Their keys are free at once, and their workers are notified at
-- commit. They end as cancelled, whatever their result. A worker also finds the mark at its next beat.
create or replace function asyncq._cancel_running(ids bigint[]) returns void
  language plpgsql volatile
  as $$
#variable_conflict use_column
begin
  update asyncq._jobs as job set cancelled_at = asyncq.now(), updated_at = asyncq.now(), key = null, rerun = null
    where job.id = any(ids) and job.locked_by is not null and job.cancelled_at is null;
  perform pg_catalog.pg_notify('asyncq:cancel', job.locked_by || ' ' || job.id || ' ' || job.lock_token)
    from asyncq._jobs as job where job.id = any(ids) and job.locked_by is not null;
end
$$;
