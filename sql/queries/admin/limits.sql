-- limits() -> kind text, name text, at_once int, rate int, per_s float8, total int, total_rate int, total_per_s float8, fair boolean, tasks text[], by text[], declared text, declared_by text, declared_at timestamptz, overrides text, set_by text, set_at timestamptz, paused_at timestamptz, running int, waiting int, full int
select kind, name, at_once, rate, per_s, total, total_rate, total_per_s, fair, tasks, by, declared::text, declared_by, declared_at, overrides::text, set_by, set_at, paused_at, running, waiting, "full"
from asyncq.limits order by name collate "C"
