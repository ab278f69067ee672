-- Be on the lookout no more, if this session was; and, if asked to, tell all other workers to look for jobs, of which one then
-- takes the place. A lone worker has nobody to tell.

create or replace function asyncq._leave_lookout(was_out boolean, tell_all boolean) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
begin
  if was_out then
    perform pg_advisory_unlock(asyncq._lock_space(), 0);
  end if;
  if tell_all and (select count(*) > 1 from asyncq._workers) then
    perform pg_notify('asyncq:jobs', 'all');
  end if;
end
$$;
