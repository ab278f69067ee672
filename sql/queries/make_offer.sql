-- make_offer(worker int, token bigint, heard bigint, task_ids text, channel text, hold bool) -> is_made bool
select asyncq._make_offer($1, $2, $3, $4::text::int[], $5, $6) as is_made
