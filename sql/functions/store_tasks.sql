-- Store the names of tasks that are used for the first time; sorted, so that two callers with the same new names never
-- deadlock. Nearly always all are known, and one probe for each is all that is done.

create or replace function asyncq._store_tasks(identifiers text[]) returns void
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  missing text[];
begin
  select array_agg(given.name) into missing
    from unnest(identifiers) as given(name)
    left join lateral (select id from asyncq._tasks where identifier = given.name offset 0) as known on true
    where given.name is not null and known.id is null;
  if missing is not null then
    insert into asyncq._tasks (identifier)
      select distinct given.name from unnest(missing) as given(name) order by given.name
      on conflict do nothing;
  end if;
end
$$;
