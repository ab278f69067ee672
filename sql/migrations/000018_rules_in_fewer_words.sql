-- The rules of a job's row, in words that cost less: each statement that inserts looks every function and operator of the predicate
-- up anew, but no `is null`, and nothing of the expression. How long a name may be is left to check_jobs: a longer one breaks no worker.

drop index asyncq.jobs_rules;
drop function asyncq._refuse_job(bigint, text);

-- The rows that are there have kept the rules so far; what it does comes with the other functions.
create function asyncq._refuse_job(id bigint) returns boolean
  language plpgsql immutable parallel safe
  as $$ begin return null; end $$;

-- Nobody reads it. A row that breaks a rule would belong to it, and what it would stand there as refuses it.
create index jobs_rules on asyncq._jobs (asyncq._refuse_job(id))
  where run_at < '0001-01-01 00:00:00+00' or run_at >= '10000-01-01 00:00:00+00'
    or attempts < 0
    or max_attempts < 1
    -- A claim is of three columns. What waits is cancelled by being ended, and run again by being changed.
    or locked_by is null and (locked_at is not null or lock_token is not null or cancelled_at is not null or rerun is not null)
    or locked_by is not null and (locked_at is null or lock_token is null)
    or keep_until is null and keep_states is not null
    or keep_until is not null and keep_states is null;

comment on index asyncq.jobs_rules is 'Always empty, and never read: rows that its predicate holds of are refused.';
