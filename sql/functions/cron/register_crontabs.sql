-- Make items of a worker's own crontab known, and say what is known of them, and of stored ones: one row for each, since when, the
-- last slot that became a job, and before when nothing is made up for. A stored item that is not known was removed meanwhile.
-- The second statement sees what the first one waited for.

create or replace function asyncq._register_crontabs(identifiers text[], stored text[] default '{}')
  returns table (identifier text, known_since timestamptz, last_execution timestamptz, not_before timestamptz)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
begin
  insert into asyncq.known_crontabs (identifier, known_since)
    select distinct given.identifier collate "C", asyncq.now() from unnest(identifiers) as given(identifier)
    where not exists (select from asyncq.known_crontabs as known where known.identifier = given.identifier)
    order by 1
    on conflict (identifier) do nothing;
  return query
    select known.identifier, known.known_since, known.last_execution, known.not_before
    from asyncq.known_crontabs as known where known.identifier = any(identifiers || stored) order by known.identifier;
end
$$;
