-- Refuse a row of _jobs as a check of the rule's name would. The index jobs_rules is on it: only rows that break one of these get here.

create or replace function asyncq._refuse_job(
  id bigint, run_at timestamptz, attempts smallint, max_attempts smallint, queue text, key text, unique_key bytea, locked_by int,
  locked_at timestamptz, lock_token bigint, cancelled_at timestamptz, rerun json, keep_until timestamptz, keep_states text[]
) returns boolean
  language plpgsql immutable parallel safe
  set search_path = pg_catalog, pg_temp
  as $$
declare
  rule text := case
    when run_at < '0001-01-01 00:00:00+00' or run_at >= '10000-01-01 00:00:00+00' then 'jobs_run_at_check'
    when attempts < 0 then 'jobs_attempts_check'
    when max_attempts < 1 then 'jobs_max_attempts_check'
    when length(queue) > 128 then 'jobs_queue_check'
    when key = '' or length(key) > 512 then 'jobs_key_check'
    when octet_length(unique_key) <> 32 then 'jobs_unique_key_check'
    when num_nulls(locked_by, locked_at, lock_token) in (1, 2) then 'jobs_claim_check'
    when locked_by is null and num_nonnulls(cancelled_at, rerun) > 0 then 'jobs_running_check'
    else 'jobs_kept_check'
  end;
begin
  raise exception using errcode = '23514', schema = 'asyncq', table = '_jobs', constraint = rule,
    message = format('the row of job %s violates %s, a rule of the index jobs_rules', id, rule);
end
$$;
