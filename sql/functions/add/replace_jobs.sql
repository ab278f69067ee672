-- Make room for jobs that replace others: what waits ends as cancelled, what runs is cancelled, and what has ended stays as it
-- is, but loses its claim to the key. Those replace whose outcome is 'added' although there is an existing job.

create or replace function asyncq._replace_jobs(
  extras jsonb[], outcomes text[], existing_ids bigint[], moment timestamptz) returns void
  language plpgsql volatile
  as $$
declare
  waiting bigint[];
  running bigint[];
  ended bigint[];
begin
  select array_agg(matched.id) filter (where matched.state in ('scheduled', 'available', 'retryable')),
      array_agg(matched.id) filter (where matched.state = 'active'),
      array_agg(matched.id) filter (where matched.state in ('completed', 'cancelled', 'discarded'))
    into waiting, running, ended
    from unnest(extras, outcomes, existing_ids) as given(extra, outcome, existing_id)
    cross join lateral asyncq._matches(given.extra, moment) as matched
    where given.outcome = 'added' and given.existing_id is not null;
  perform asyncq._end_jobs(waiting, 'cancelled');
  perform asyncq._cancel_running(running);
  update asyncq._jobs as job set unique_key = null where job.id = any(ended);
  update asyncq._ended_jobs as job set unique_key = null where job.id = any(ended);
end
$$;
