-- Whether a job's row breaks a rule is asked apart from which: each statement that inserts or changes rows makes the predicate of an
-- index ready anew, but what an index is on only for a row that belongs to it.

drop index asyncq.jobs_rules;
drop function asyncq._refuse_job(bigint, text);

-- The rows that are there have kept the rules so far; what it does comes with the other functions.
create function asyncq._refuse_job(
  id bigint, run_at timestamptz, attempts smallint, max_attempts smallint, queue text, key text, unique_key bytea, locked_by int,
  locked_at timestamptz, lock_token bigint, cancelled_at timestamptz, rerun json, keep_until timestamptz, keep_states text[]
) returns boolean
  language plpgsql immutable parallel safe
  as $$ begin return null; end $$;

-- Nobody reads it, and no row belongs to it: one that breaks a rule is refused.
create index jobs_rules on asyncq._jobs (asyncq._refuse_job(
    id, run_at, attempts, max_attempts, queue, key, unique_key, locked_by, locked_at, lock_token, cancelled_at, rerun, keep_until,
    keep_states
  ))
  where run_at < '0001-01-01 00:00:00+00' or run_at >= '10000-01-01 00:00:00+00'
    or attempts < 0
    or max_attempts < 1
    or length(queue) > 128
    or key = '' or length(key) > 512
    or octet_length(unique_key) <> 32
    or locked_by is null and (locked_at is not null or lock_token is not null)
    or locked_by is not null and (locked_at is null or lock_token is null)
    -- What waits is cancelled by being ended, and run again by being changed.
    or locked_by is null and (cancelled_at is not null or rerun is not null)
    or keep_until is null and keep_states is not null
    or keep_until is not null and keep_states is null;

comment on index asyncq.jobs_rules is 'Always empty, and never read: what it is on refuses the rows of its predicate, which break a rule.';
