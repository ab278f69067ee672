-- Take their claims away from workers, by their ids, at once: for workers that are known to be gone and have not yet been
-- declared dead. Each claim was an attempt. A worker that lives after all cancels its handlers when it hears of it, at its next
-- beat at the latest; what they come to is refused.
-- Returns the rows of the jobs that were running, in the order of their ids.

create or replace function asyncq.force_unlock_workers(worker_ids text[]) returns setof asyncq.jobs
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (freed.shown).* from asyncq._force_unlock_workers(worker_ids) as freed order by (freed.shown).id $$;
