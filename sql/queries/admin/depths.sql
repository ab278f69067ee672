-- depths(since timestamptz, step_s float8) -> at timestamptz, scheduled bigint, available bigint, active bigint, retryable bigint, discarded bigint, oldest_s float8, workers float8, slots float8, busy float8
select at, scheduled, available, active, retryable, discarded, oldest_s, workers, slots, busy
from asyncq.depths($1::timestamptz, make_interval(secs => $2::float8))
