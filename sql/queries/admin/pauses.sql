-- pauses() -> what text, name text, key text, paused_at timestamptz, paused_by text, reason text
select what, name, key, paused_at, paused_by, reason from asyncq.pauses order by paused_at, what, name, key
