-- is_oldest(worker int) -> is_oldest bool, sees_all bool
-- Whether no live worker is older: the oldest one does the work that one does for all. sees_all: whether this role sees
-- what other roles do.
select
  not exists (select from asyncq._workers as other where other.id < $1 and asyncq._is_live(other)) as is_oldest,
  pg_catalog.pg_has_role('pg_read_all_stats', 'usage') as sees_all
