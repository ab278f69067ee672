-- unpack(worker int, tokens bigint[]) -> id bigint
-- Dissolve batches of this worker; those that another transaction holds are left as they are.
select id from asyncq._unpack(array(
  select ctid from asyncq._batches where locked_by = $1 and lock_token = any($2::bigint[]) order by lock_token for update skip locked)) as id
