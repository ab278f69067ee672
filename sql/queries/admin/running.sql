-- running(most int) -> id bigint, task text, queue text, worker_id int, host text, claimed_at timestamptz, running_s float8, attempt int, max_attempts int, is_named bool, is_cancelled bool
select id, task, queue, worker_id, host, claimed_at, running_s, attempt, max_attempts, is_named, is_cancelled from asyncq.running($1::int)
