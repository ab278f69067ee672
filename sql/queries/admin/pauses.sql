-- pauses(older_s float8) -> what text, name text, key text, paused_at timestamptz, paused_by text, reason text
-- What is paused; only what has been for so long, unless older_s is null.
select what, name, key, paused_at, paused_by, reason from asyncq.pauses
where $1::float8 is null or paused_at < asyncq.clock() - make_interval(secs => $1::float8)
order by paused_at, what, name, key
