-- find_worker(worker int) -> found text
-- Whether a rescue has declared a worker dead, for servers that are read only. The rows of a standby may be old.
select case
  when pg_catalog.pg_is_in_recovery() then 'standby'
  when exists (select from asyncq._workers where id = $1::int and died_at is null) then 'known'
  else 'gone' end as found
