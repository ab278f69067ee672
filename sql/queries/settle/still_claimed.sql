-- still_claimed(worker int, tokens bigint[]) -> lock_token bigint
-- The fetches, of these, of which this worker still has a claim, since another transaction locks its row or batch.
select lock_token from asyncq._batches where locked_by = $1 and lock_token = any($2)
union
select lock_token from asyncq._jobs where locked_by = $1 and locked_at is not null and lock_token = any($2)
