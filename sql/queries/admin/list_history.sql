-- list_history(state text, task text, since timestamptz, before bigint, most int) -> id bigint, task text, queue text, state text, priority int2, attempts int2, max_attempts int2, run_at timestamptz, created_at timestamptz, started_at timestamptz, ended_at timestamptz, worker_id int, error text, keep_until timestamptz
select id, task_identifier as task, queue_name as queue, state, priority, attempts, max_attempts, run_at, created_at, started_at,
  ended_at, worker_id, error, nullif(keep_until, 'infinity') as keep_until
from asyncq._list_history($1::text, $2::text, $3::timestamptz, $4::bigint, $5::int)
