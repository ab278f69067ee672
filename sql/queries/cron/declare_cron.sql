-- declare_cron(worker int, cron text) -> id int
-- The recurring items of the worker's own crontab: they replace stored ones of the same name, and readers see them.
update asyncq._workers set cron = $2::text::jsonb where id = $1 returning id
