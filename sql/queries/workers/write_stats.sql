-- write_stats(counted text, worker int) -> void
select asyncq._write_stats($1::text::jsonb, $2::int)
