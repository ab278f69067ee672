-- Return the claims of fetches whose answer was lost. Their jobs never started, and their worker lives, so that no rescue finds
-- them. Jobs that were cancelled meanwhile end. Rows and batches that another transaction locks are skipped.

create or replace function asyncq._return_lost(worker int, tokens bigint[]) returns setof bigint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  -- The worker's connection disables sorts for fetches.
  set enable_seqscan = off
  set enable_sort = on
  as $$
#variable_conflict use_column
begin
  perform asyncq._split_batches_of_worker(worker, tokens);
  return query
    select id from asyncq._release(array(
      select id from asyncq._jobs where locked_by = worker and lock_token = any(tokens)
      order by id for update skip locked));
end
$$;
