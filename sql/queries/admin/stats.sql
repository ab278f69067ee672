-- stats(since timestamptz, step_s float8, task text) -> at timestamptz, task text, completed bigint, retried bigint, discarded bigint, cancelled bigint, snoozed bigint, took_s float8, waited_s float8, took bigint[], waited bigint[]
select at, task, completed, retried, discarded, cancelled, snoozed, took_s, waited_s, took, waited
from asyncq.stats($1::timestamptz, make_interval(secs => $2::float8), $3::text)
