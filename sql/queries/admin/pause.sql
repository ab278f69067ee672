-- pause(task text, queue text, limit_name text, key text, reason text, by text) -> what text, name text, key text, paused_at timestamptz, paused_by text, reason text
select what, name, key, paused_at, paused_by, reason
from asyncq.pause($1::text, $2::text, $3::text, $4::text, $5::text, $6::text)
