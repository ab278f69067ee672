-- still_held(worker int, ids bigint[], tokens bigint[]) -> id bigint
-- Of settlements that were not written: the claims that this worker still holds. The others are lost.
select id from asyncq._jobs
where id = any($2::bigint[]) and locked_by = $1
  and lock_token = ($3::bigint[])[width_bucket(id, $2::bigint[])]
union all
select claim.id
from asyncq._batches as batch
cross join lateral unnest($2::bigint[], $3::bigint[]) as claim(id, token)
cross join lateral (select width_bucket(claim.id, batch.ids)) as member(place)
where batch.locked_by = $1 and batch.lock_token = claim.token
  and case when batch.ids[member.place] = claim.id then get_bit(batch.open, member.place - 1) = 1 end
