-- errors(job_id bigint) -> number int, kind text, started_at timestamptz, ended_at timestamptz, worker_id int, error text
-- The failed attempts of a job, the first one first; of more than a thousand, the last thousand.
select number, kind, started_at, ended_at, worker_id, error
from (
  select number, kind, started_at, ended_at, worker_id, error
  from asyncq.attempts where job_id = $1 order by ended_at desc, number desc limit 1000) as newest
order by ended_at, number
