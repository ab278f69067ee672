-- report_cron(items text[], revisions bigint[], next_runs timestamptz[], problems text[], jobs text[]) -> void
select asyncq._report_cron($1::text[], $2::bigint[], $3::timestamptz[], $4::text[], $5::text[]::jsonb[])
