-- What a row of _jobs must be is the predicate of an index that is always empty: the expressions of a check are read, planned and
-- made ready anew by each statement that inserts, those of an index are kept by the session.

alter table asyncq._jobs
  drop constraint jobs_run_at_check,
  drop constraint jobs_attempts_check,
  drop constraint jobs_max_attempts_check,
  drop constraint jobs_queue_check,
  drop constraint jobs_key_check,
  drop constraint jobs_unique_key_check,
  drop constraint jobs_claim_check,
  drop constraint jobs_running_check,
  drop constraint jobs_kept_check;

-- The rows that are there have kept the rules so far; what it does comes with the other functions.
create function asyncq._refuse_job(id bigint, rule text) returns boolean
  language plpgsql immutable strict parallel safe
  as $$ begin return null; end $$;

-- Nobody reads it. Where no rule is broken the second argument is null, and the function, which is strict, is not called.
create index jobs_rules on asyncq._jobs (id)
  where asyncq._refuse_job(id, case
    when run_at < '0001-01-01 00:00:00+00' or run_at >= '10000-01-01 00:00:00+00' then 'jobs_run_at_check'
    when attempts < 0 then 'jobs_attempts_check'
    when max_attempts < 1 then 'jobs_max_attempts_check'
    when length(queue) > 128 then 'jobs_queue_check'
    when key = '' or length(key) > 512 then 'jobs_key_check'
    when octet_length(unique_key) <> 32 then 'jobs_unique_key_check'
    when num_nulls(locked_by, locked_at, lock_token) in (1, 2) then 'jobs_claim_check'
    -- What waits is cancelled by being ended, and run again by being changed.
    when locked_by is null and num_nonnulls(cancelled_at, rerun) > 0 then 'jobs_running_check'
    when num_nulls(keep_until, keep_states) = 1 then 'jobs_kept_check'
  end);

comment on index asyncq.jobs_rules is 'Always empty, and never read: its predicate refuses rows that break a rule.';
