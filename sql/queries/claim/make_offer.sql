-- make_offer(worker int, token bigint, heard bigint, task_ids text, packable_ids text, channel text, hold bool) -> is_made bool
select asyncq._make_offer($1, $2, $3, $4::text::int[], $5::text::int[], $6, $7) as is_made
