-- How many jobs are in each state. Of a large table what waits is estimated by a sample, unless exact figures are wanted, for
-- which all of it is read; is_exact says which. A state without a row has no jobs, exactly.

create or replace function asyncq.counts(exact boolean default false)
  returns table (state text, jobs bigint, is_exact boolean)
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select counted.state, counted.jobs, counted.is_exact from asyncq._counts(exact) as counted $$;
