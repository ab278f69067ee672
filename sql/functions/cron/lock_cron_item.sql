-- Lock one recurring item until the end of the transaction: no slot of it becomes a job meanwhile. An item that only
-- the crontab of a live worker has so far becomes known.
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

-- Whether a live worker has an item of this identifier in its own crontab.
create or replace function asyncq._is_declared(item text) returns boolean
  language sql volatile
  as $$
  select exists (select from asyncq._workers as worker where worker.cron ? item and asyncq._is_live(worker))
  $$;

-- Notify the workers at commit that stored items changed. A worker that misses it finds this when it reads the clock.
create or replace function asyncq._wake_cron() returns void
  language sql volatile
  as $$ select pg_catalog.pg_notify('asyncq:cron', '') $$;
