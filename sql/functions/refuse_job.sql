-- Refuse a row of _jobs as a check of that name would. The predicate of jobs_rules calls it, of rows that break the rule alone.

create or replace function asyncq._refuse_job(id bigint, rule text) returns boolean
  language plpgsql immutable strict parallel safe
  set search_path = pg_catalog, pg_temp
  as $$
begin
  raise exception using errcode = '23514', schema = 'asyncq', table = '_jobs', constraint = rule,
    message = format('the row of job %s violates %s, a rule of the index jobs_rules', id, rule);
end
$$;
