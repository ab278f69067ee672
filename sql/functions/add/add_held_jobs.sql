-- Add jobs whose keys other jobs hold, or which meet each other; keys is what _hold_keys returned, and dedupes null if none of them
-- asks about others. A row for each, in no order.

create or replace function asyncq._add_held_jobs(
  identifiers text[], payloads json[], queue_names text[], run_ats timestamptz[], max_attempts int[], job_keys text[],
  priorities int[], flags jsonb[], job_key_modes text[], metas jsonb[], dedupes jsonb[], keys text)
  returns table (ord bigint, outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile
  as $$
#variable_conflict use_column
begin
  if dedupes is not null then
    return query
      select done.ord, done.outcome, done.id, done.existing_id, done.existing_state
      from asyncq._add_asking_jobs(
        identifiers, payloads, queue_names, run_ats, max_attempts, job_keys, priorities, flags, job_key_modes, metas, dedupes,
        keys) as done;
  elsif keys = 'held' then
    return query
      select done.ord, done.outcome, done.id, done.existing_id, done.existing_state
      from asyncq._add_keyed_jobs(
        identifiers, payloads, queue_names, run_ats, max_attempts, job_keys, priorities, flags, job_key_modes, metas, null,
        null) as done;
  else
    return query
      select done.ord, done.outcome, done.id, done.existing_id, done.existing_state
      from asyncq._add_doubled_jobs(
        identifiers, payloads, queue_names, run_ats, max_attempts, job_keys, priorities, flags, job_key_modes, metas) as done;
  end if;
end
$$;
