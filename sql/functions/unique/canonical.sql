-- A JSON value as canonical text: RFC 8785, strings in Unicode's form NFC first. Equal values have equal texts.
-- asyncq/domain/canonical.py is the same rule: what is accepted, refused and written is the same, to the byte.
--
-- It takes json: jsonb turns 1e21 into an integer before its form can be seen. Of members with one name the last one
-- counts; names that only NFC makes equal are refused. path is where the value stands, depth in how many arrays and
-- objects; members, when there are any, are the only ones of an object that count.

create or replace function asyncq._canonical(
  value json, path text default 'args', depth int default 0, members text[] default '{}') returns text
  language plpgsql immutable strict
  as $$
declare
  kind constant text := json_typeof(value);
  canonical text;
  has_twins boolean;
begin
  if depth = 0 then
    perform asyncq._check_escapes(value, path);
  end if;
  if kind = 'string' then
    return to_json(asyncq._nfc(value #>> '{}'));
  elsif kind = 'number' then
    return asyncq._canonical_number(btrim(value::text, E' \t\n\r'), path);
  elsif kind in ('boolean', 'null') then
    return btrim(value::text, E' \t\n\r');
  elsif depth >= 64 then
    raise exception using errcode = 'GWBUP', column = split_part(path, '.', 1),
      message = split_part(path, '.', 1) || ' is nested more than 64 levels deep';
  elsif kind = 'array' then
    select string_agg(asyncq._canonical(item, path || '.' || ord - 1, depth + 1), ',' order by ord) into canonical
    from json_array_elements(value) with ordinality as element(item, ord);
    return '[' || coalesce(canonical, '') || ']';
  end if;
  -- Names are sorted by UTF-16 code units, where U+10000 stands before U+E000. A mark before each character from there
  -- on brings about that order in UTF-8: U+E001 before those that are one unit, U+E000 before those that are two.
  select
    string_agg(to_json(name)::text || ':' || asyncq._canonical(item, path || '.' || name, depth + 1), ','
      order by case when octet_length(name) = length(name) then name else regexp_replace(
        regexp_replace(name, E'([\uE000-\uFFFF])', E'\uE001\\1', 'g'),
        E'([\U00010000-\U0010FFFF])', E'\uE000\\1', 'g') end collate "C")
      filter (where members = '{}' or name = any(members)),
    count(*) > count(distinct name collate "C")
    into canonical, has_twins
  from (
    select distinct on (given.name collate "C") asyncq._nfc(given.name) as name, given.item
    from json_each(value) with ordinality as given(name, item, ord)
    order by given.name collate "C", given.ord desc) as member;
  if has_twins then
    raise exception using errcode = 'GWBUP', column = split_part(path, '.', 1),
      message = path || ' has two members whose names are the same text in Unicode''s form NFC';
  end if;
  return '{' || coalesce(canonical, '') || '}';
end
$$;
