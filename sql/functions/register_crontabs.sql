-- Make recurring items known, and say what is known of them: one row for each, since when, and the last slot that became
-- a job. The second statement sees what the first one waited for.

create or replace function asyncq._register_crontabs(identifiers text[])
  returns table (identifier text, known_since timestamptz, last_execution timestamptz)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
begin
  insert into asyncq.known_crontabs (identifier, known_since)
    select distinct given.identifier, asyncq.now() from unnest(identifiers) as given(identifier) order by given.identifier
    on conflict (identifier) do nothing;
  return query
    select known.identifier, known.known_since, known.last_execution
    from asyncq.known_crontabs as known where known.identifier = any(identifiers) order by known.identifier;
end
$$;
