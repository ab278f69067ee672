-- split_batch_of_claim(worker int, job bigint, token bigint) -> state text
select asyncq._split_batch_of_claim($1, $2, $3) as state
