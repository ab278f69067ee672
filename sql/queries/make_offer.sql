-- make_offer(worker int, token bigint, heard bigint, task_ids int[], channel text, hold bool) -> is_made bool
select asyncq._make_offer($1, $2, $3, $4, $5, $6) as is_made
