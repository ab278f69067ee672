-- add_cron_item(identifier text, definition text, job text) -> void
select asyncq._add_cron_item($1::text, $2::text::jsonb, $3::text::jsonb)
