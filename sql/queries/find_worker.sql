-- find_worker(worker int) -> found text
-- Whether others have declared a worker dead, read where nothing can be written; the rows of a standby may be old.
select case
  when pg_catalog.pg_is_in_recovery() then 'standby'
  when exists (select from asyncq._workers where id = $1::int and died_at is null) then 'known'
  else 'gone' end as found
