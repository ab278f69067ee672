-- Store the names of tasks and queues that are used for the first time; sorted, so that two callers never deadlock.

create or replace function asyncq._store_names(identifiers text[], queue_names text[]) returns void
  language plpgsql volatile
  as $$
#variable_conflict use_column
begin
  perform from asyncq._task_ids(identifiers);
  insert into asyncq._queues (name)
    select distinct given.name from unnest(queue_names) as given(name)
    left join lateral (select id from asyncq._queues where name = given.name offset 0) as known on true
    where given.name is not null and known.id is null
    order by given.name
    on conflict do nothing;
end
$$;
