-- Split batches of a worker, by the tokens of their fetches; those that another transaction locks are left as they are. Returns
-- the ids of the rows.

create or replace function asyncq._split_batches_of_worker(worker int, tokens bigint[]) returns setof bigint
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
  select split.id
  from asyncq._split_batches(array(
    select batch.ctid from asyncq._batches as batch
    where batch.locked_by = worker and batch.lock_token = any(tokens)
    order by batch.lock_token for update skip locked)) as split(id)
  $$;
