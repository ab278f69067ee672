-- Add jobs with the rights of the schema's owner: all that a role needs that adds jobs and does nothing else.
-- jobs is an object, or an array of objects, whose members are the arguments of add_job; what is left out, or null, is the
-- default (the payload null is a payload). Its argument list never changes: new options are new members, so that a role's
-- right to call it outlives every upgrade. What comes back tells no more of a job that was there before than its id and state.

create or replace function asyncq.enqueue(jobs json)
  returns table (ord bigint, outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  listed constant json := case json_typeof(jobs) when 'object' then json_build_array(jobs) else jobs end;
begin
  perform asyncq._check_members(listed);
  return query
    with specs as materialized (
      select job -> 'payload' as payload, identifier, queue_name, run_at, max_attempts, job_key, priority, flags,
        coalesce(job_key_mode, 'replace') as job_key_mode, options, ord
      from rows from (
        json_array_elements(listed),
        json_to_recordset(listed) as (
          identifier text, queue_name text, run_at timestamptz, max_attempts int, job_key text, priority int,
          flags text[], job_key_mode text, options jsonb))
        with ordinality as spec(
          job, identifier, queue_name, run_at, max_attempts, job_key, priority, flags, job_key_mode, options, ord)),
    given as (
      select
        array_agg(identifier order by ord) as identifiers,
        array_agg(payload order by ord) as payloads,
        array_agg(queue_name order by ord) as queue_names,
        array_agg(run_at order by ord) as run_ats,
        array_agg(max_attempts order by ord) as max_attempts,
        array_agg(job_key order by ord) as job_keys,
        array_agg(priority order by ord) as priorities,
        array_agg(asyncq._flags(flags) order by ord) as flags,
        array_agg(job_key_mode order by ord) as job_key_modes,
        array_agg(options -> 'meta' order by ord) as metas,
        array_agg(asyncq._extra(options, identifier, queue_name, payload, job_key) order by ord) as extras
      from specs
      having count(*) > 0)
    select added.ord, added.outcome, added.id, added.existing_id, added.existing_state
    from given cross join lateral asyncq._add_jobs(
      given.identifiers, given.payloads, given.queue_names, given.run_ats, given.max_attempts, given.job_keys,
      given.priorities, given.flags, given.job_key_modes, given.metas, given.extras) as added;
end
$$;
