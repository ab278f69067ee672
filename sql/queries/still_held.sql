-- still_held(worker int, ids bigint[], tokens bigint[]) -> id bigint
-- Of settlements that were not written: the claims that this worker still holds. The others are lost.
select id from asyncq._jobs
where id = any($2::bigint[]) and locked_by = $1
  and lock_token = ($3::bigint[])[width_bucket(id, $2::bigint[])]
