-- Add jobs of which some have a unique policy or an idempotency key, when there is something to ask: other jobs have the keys, or
-- are remembered, or some jobs of the call share keys. keys is what _hold_keys returned.

create or replace function asyncq._add_asking_jobs(
  identifiers text[], payloads json[], queue_names text[], run_ats timestamptz[], max_attempts int[], job_keys text[],
  priorities int[], flags jsonb[], job_key_modes text[], metas jsonb[], dedupes jsonb[], keys text)
  returns table (ord bigint, outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile
  as $$
#variable_conflict use_column
begin
  perform asyncq._check_requests(identifiers, payloads, dedupes);
  -- Whom a job looks at is written out, now that somebody looks.
  dedupes := array(
    select case
        when given.dedupe ? 'key' and not given.dedupe ? 'states'
          then given.dedupe || '{"states": ["available", "active", "scheduled", "retryable", "pending"]}'
        else given.dedupe
      end
    from unnest(dedupes) with ordinality as given(dedupe, ord) order by given.ord);
  if keys = 'doubled' then
    return query
      select done.ord, done.outcome, done.id, done.existing_id, done.existing_state
      from asyncq._add_sharing_jobs(
        identifiers, payloads, queue_names, run_ats, max_attempts, job_keys, priorities, flags, job_key_modes, metas,
        dedupes) as done;
  else
    return query
      select done.ord, done.outcome, done.id, done.existing_id, done.existing_state
      from asyncq._add_distinct_jobs(
        identifiers, payloads, queue_names, run_ats, max_attempts, job_keys, priorities, flags, job_key_modes, metas,
        dedupes) as done;
  end if;
end
$$;
