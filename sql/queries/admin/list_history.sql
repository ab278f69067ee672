-- list_history(state text, task text, since timestamptz, before bigint, most int, look int, with_discarded boolean) -> next bigint, id bigint, task text, queue text, state text, priority int2, attempts int2, max_attempts int2, run_at timestamptz, created_at timestamptz, started_at timestamptz, ended_at timestamptz, worker_id int, error text, keep_until timestamptz
-- It looks at so many ended jobs; of a state that has an index, at those of the state. next is the last of them, before
-- which the next call looks; null: none is left. A row without a job says it if none was found.
with looked as materialized (
  select case when $1::text <> 'completed' then (
      select ended.id from asyncq._ended_jobs as ended
      where ended.state = $1::text and ended.state <> 'completed' and ended.id < coalesce($4::bigint, 9223372036854775807)
      order by ended.id desc offset $6::int - 1 limit 1)
    else (
      select ended.id from asyncq._ended_jobs as ended where ended.id < coalesce($4::bigint, 9223372036854775807)
      order by ended.id desc offset $6::int - 1 limit 1) end as down_to)
select looked.down_to as next, found.id, task_identifier as task, queue_name as queue, state, priority, attempts, max_attempts, run_at,
  created_at, started_at, ended_at, worker_id, error, nullif(keep_until, 'infinity') as keep_until
from looked
left join lateral asyncq._list_history($1::text, $2::text, $3::timestamptz, $4::bigint, $5::int, looked.down_to, $7::boolean) as found on true
