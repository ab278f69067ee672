-- failed_jobs(before timestamptz, before_id bigint, most int) -> id bigint, task text, queue text, failed_at timestamptz, attempts int, max_attempts int, first_line text
select id, task, queue, failed_at, attempts, max_attempts, first_line from asyncq.failed_jobs($1::timestamptz, $2::bigint, $3::int)
