-- Hold one recurring item until the end of the transaction: no slot of it becomes a job meanwhile. One that only the crontab of a
-- live worker knows so far becomes known.

create or replace function asyncq._lock_cron_item(item text) returns void
  language plpgsql volatile
  as $$
begin
  loop
    perform from asyncq.known_crontabs where identifier = item for update;
    exit when found;
    if not asyncq._is_declared(item) then
      raise exception using errcode = 'GWBCN', message = 'there is no recurring item ''' || coalesce(item, 'null') || '''';
    end if;
    insert into asyncq.known_crontabs (identifier, known_since) values (item, asyncq.clock())
      on conflict (identifier) do nothing;
  end loop;
end
$$;
