-- Record in a running job that it blocks its worker's event loop, while the worker has the claim. A row that another
-- transaction locks is left alone: the heartbeat's connection must not wait, and a transactional task (for key share)
-- must not find its row changed. Returns the id, or nothing.
create or replace function asyncq._note_block(worker int, job bigint, token bigint, error text) returns setof bigint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
begin
  perform asyncq._split_batches_of_worker(worker, array[token]);
  return query
    with held as (
      select id from asyncq._jobs where id = job and locked_by = worker and lock_token = token
      for update skip locked)
    update asyncq._jobs as noted
    set last_error = error
    from held
    where noted.id = held.id
    returning noted.id;
end
$$;
