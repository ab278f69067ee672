-- change_cron_item(identifier text, changes text, job text, revision bigint) -> changed boolean
select asyncq._change_cron_item($1::text, $2::text::jsonb, $3::text::jsonb, $4::bigint) as changed
