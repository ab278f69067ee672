-- Cancel running jobs, whose rows the caller has locked: their key is free at once, their workers are notified at commit, and
-- whatever comes of them, they end as cancelled. A worker that was not reached finds the mark at its next beat.

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
