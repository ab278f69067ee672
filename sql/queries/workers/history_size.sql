-- history_size(most int) -> jobs bigint, bytes bigint, oldest_s float8
-- The ended jobs that are kept, of which at most so many are counted; the size of their table with its indexes; and how
-- long ago the one with the smallest id ended.
select (select count(*) from (select from asyncq._ended_jobs limit $1::int) as counted) as jobs,
  pg_catalog.pg_total_relation_size('asyncq._ended_jobs') as bytes,
  (select extract(epoch from asyncq.clock() - ended_at)::float8 from asyncq._ended_jobs order by id limit 1) as oldest_s
