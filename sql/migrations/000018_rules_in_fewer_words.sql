-- The rules of a job's row, in words that cost less: each statement that inserts looks every function and operator of the predicate
-- up anew, but no `is null`.

drop index asyncq.jobs_rules;

-- Nobody reads it. Where no rule is broken the second argument is null, and the function, which is strict, is not called.
create index jobs_rules on asyncq._jobs (id)
  where asyncq._refuse_job(id, case
    when run_at < '0001-01-01 00:00:00+00' or run_at >= '10000-01-01 00:00:00+00' then 'jobs_run_at_check'
    when attempts < 0 then 'jobs_attempts_check'
    when max_attempts < 1 then 'jobs_max_attempts_check'
    when length(queue) > 128 then 'jobs_queue_check'
    when key = '' or length(key) > 512 then 'jobs_key_check'
    when octet_length(unique_key) <> 32 then 'jobs_unique_key_check'
    when case when locked_by is null then locked_at is not null or lock_token is not null
      else locked_at is null or lock_token is null end then 'jobs_claim_check'
    -- What waits is cancelled by being ended, and run again by being changed.
    when locked_by is null and (cancelled_at is not null or rerun is not null) then 'jobs_running_check'
    when case when keep_until is null then keep_states is not null else keep_states is null end then 'jobs_kept_check'
  end);

comment on index asyncq.jobs_rules is 'Always empty, and never read: its predicate refuses rows that break a rule.';
