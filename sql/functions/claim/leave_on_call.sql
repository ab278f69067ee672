-- End this session's turn on call, if it has it. If notify_all, notify all other workers: each fetches, and one of them goes on call.

create or replace function asyncq._leave_on_call(was_mine boolean, notify_all boolean) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
begin
  if was_mine then
    perform pg_advisory_unlock(asyncq._lock_space(), 0);
  end if;
  if notify_all and (select count(*) > 1 from asyncq._workers) then
    perform pg_notify('asyncq:jobs', 'all');
  end if;
end
$$;
