-- run_cron_item(identifier text) -> outcome text, id bigint, existing_id bigint, existing_state text
select outcome, id, existing_id, existing_state from asyncq._run_cron_item($1::text)
