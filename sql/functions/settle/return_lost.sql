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
declare
  held bigint[];
  queues text[];
begin
  perform asyncq._unpack_claims(worker, tokens);
  held := array(
    select id from asyncq._jobs where locked_by = worker and lock_token = any(tokens)
    order by id for update skip locked);
  if cardinality(held) = 0 then
    return;
  end if;
  queues := array(select queue from asyncq._jobs where id = any(held) and queue is not null);
  perform asyncq._end_marked(held);
  update asyncq._jobs set locked_by = null, locked_at = null, lock_token = null, updated_at = asyncq.now()
    where id = any(held) and locked_by = worker;
  delete from asyncq._queues where name = any(queues) and locked_by = worker;
  return query select unnest(held);
end
$$;
