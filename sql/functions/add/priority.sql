-- The priority that a job gets: the one that the add gave, or the default.
create or replace function asyncq._priority(given int) returns smallint
  language sql immutable parallel safe
  as $$ select coalesce(given, 0)::smallint $$;

-- The attempts that a job gets: those that the add gave, or the default.
create or replace function asyncq._max_attempts(given int) returns smallint
  language sql immutable parallel safe
  as $$ select coalesce(given, 25)::smallint $$;

-- Flags are stored as an object of trues: duplicates collapse, no flags are null, a null flag is an error.
create or replace function asyncq._flags(names text[]) returns jsonb
  language plpgsql immutable
  as $$
begin
  if names is null or cardinality(names) = 0 then
    return null;
  end if;
  if array_position(names, null) is not null then
    raise exception using errcode = '22023', column = 'flags', message = 'flags: a flag must be a text, got null';
  end if;
  return (select jsonb_object_agg(name, true) from unnest(names) as name);
end
$$;
