-- End jobs in this state, whose rows the caller has locked: they are deleted, and kept as ended ones where something asked
-- for that. Where ids are given twice, as by a sequence that was not brought along to another server, the later job is kept: an error
-- would keep all others that end with it from being settled.

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
