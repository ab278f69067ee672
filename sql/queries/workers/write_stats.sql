-- write_stats(counted text, worker int)
select asyncq._write_stats($1::text::jsonb, $2::int)
