-- open_slot(worker int, token bigint, acknowledged_token bigint, task_ids text, batchable_ids text, channel text, takes_locks bool) -> is_open bool
select asyncq._open_slot($1, $2, $3, $4::text::int[], $5::text::int[], $6, $7) as is_open
