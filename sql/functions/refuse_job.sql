-- Refuse a row of _jobs as a check would. The index jobs_rules calls it, for a row that breaks one of its rules, and for no other.

create or replace function asyncq._refuse_job(id bigint) returns boolean
  language plpgsql immutable parallel safe
  set search_path = pg_catalog, pg_temp
  as $$
begin
  raise exception using errcode = '23514', schema = 'asyncq', table = '_jobs', constraint = 'jobs_rules',
    message = format('the row of job %s breaks a rule of the index jobs_rules', id),
    hint = format('The rules: select pg_get_indexdef(%L::regclass);', 'asyncq.jobs_rules');
end
$$;
