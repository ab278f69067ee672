-- A JSON value as canonical text: RFC 8785, strings in Unicode's form NFC first. Equal values have equal texts.
-- asyncq/domain/canonical.py is the same rule: it accepts, refuses and writes the same, to the byte.
--
-- It takes json: jsonb would turn 1e21 into an integer. Of members with one name the last one counts; names that only
-- NFC makes equal are refused. path is the position of the value, depth the number of arrays and objects around it.
-- members, if there are any, are the only ones of an object that count.
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
  -- Names are sorted by UTF-16 code units, where U+10000 comes before U+E000. In UTF-8 a mark before each character
  -- from U+E000 on makes the same order: U+E001 before characters of one unit, U+E000 before characters of two.
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

-- The counted part of args or meta (path says which), as canonical JSON. That is the whole value if names is null, else
-- an object of the named members, which all have to exist. args may be an array around one object, as in the spec.
create or replace function asyncq._canonical_members(value json, names jsonb, path text) returns text
  language plpgsql immutable
  as $$
declare
  named text[];
  held text[];
  missing text;
begin
  if names is null or names = 'null' then
    return asyncq._canonical(value, path);
  elsif names = '[]' then
    return '{}';
  end if;
  perform asyncq._check_escapes(value, path);
  if path = 'args' and json_typeof(value) = 'array' and json_array_length(value) = 1 then
    value := value -> 0;
  end if;
  named := array(select name from jsonb_array_elements_text(names) as name);
  if json_typeof(value) = 'object' then
    held := array(select asyncq._nfc(name) from json_object_keys(value) as name);
  end if;
  if (named <@ held) is not true then
    missing := (
      select name from unnest(named) with ordinality as wanted(name, ord)
      where (name = any(held)) is not true order by ord limit 1);
    raise exception using errcode = 'GWBUP', column = 'unique.' || path || '_keys',
      message = 'unique.' || path || '_keys names ''' || missing || ''', which ' || path || ' does not hold';
  end if;
  return asyncq._canonical(value, path, members => named);
end
$$;

-- A number as canonical JSON: what ECMAScript's Number::toString makes of the nearest double (RFC 8785, 3.2.2.3).
-- literal is the number as it is written in the JSON text, such as 1.50 or 1E3; path is for the error.
-- extra_float_digits is set because float8out depends on it, and the caller may have changed it.
create or replace function asyncq._canonical_number(literal text, path text default 'args') returns text
  language plpgsql immutable strict
  set extra_float_digits = 1
  as $$
declare
  number float8;
  shortest text;
  candidate text;
  part text[];
begin
  if literal ~ '^-?[0-9]{1,15}$' then
    return case literal when '-0' then '0' else literal end;
  end if;
  begin
    number := literal::float8;
  exception when numeric_value_out_of_range then
    -- Too large, or too small to differ from 0: the position of the first digit decides.
    part := regexp_match(literal, '^-?(0|[1-9][0-9]*)[.]?(0*)[0-9]*(?:[eE]([+-]?)0*)?([0-9]*)$');
    if (coalesce(part[3], '') || left('0' || part[4], 20))::numeric
      + (case part[1] when '0' then -length(part[2]) else length(part[1]) end) > 0 then
      raise exception using errcode = 'GWBUP', column = split_part(path, '.', 1),
        message = path || ' is a number beyond those of JSON, which end at 1.8e308; send it as a string';
    end if;
    number := 0;
  end;
  shortest := number;
  -- float8out does not write the shortest form if that lies exactly between two doubles, which happens only here.
  if abs(number) between 9007199254740992 and 1e39 then
    for digits in 15 .. 16 loop
      candidate := to_char(number, '9.' || repeat('9', digits - 1) || 'EEEE');
      if candidate::float8 = number then
        shortest := candidate;
        exit;
      end if;
    end loop;
  end if;
  if literal ~ '^-?[0-9]+$' and shortest::numeric <> literal::numeric then
    raise exception using errcode = 'GWBUP', column = split_part(path, '.', 1),
      message = path || ' is an integer that the numbers of JSON cannot hold exactly (above 2^53); send it as a string';
  end if;
  if number = 0 then
    return '0';
  elsif abs(number) >= 1e-6 and abs(number) < 1e21 then
    return trim_scale(shortest::numeric);
  end if;
  part := regexp_match(shortest, '([-0-9.]+)e([+-])0*([0-9]+)');
  return trim_scale(part[1]::numeric) || 'e' || part[2] || part[3];
end
$$;

-- A text in Unicode's form NFC: texts that look the same become the same. The database's encoding has to be UTF8.
create or replace function asyncq._nfc(value text) returns text
  language plpgsql immutable strict
  as $$
begin
  if octet_length(value) = length(value) then
    return value;
  end if;
  -- normalize() drops U+11A7 after a Hangul syllable, which it reads as a missing last consonant. The character
  -- composes with nothing, so the parts before and after it can be normalised apart.
  if strpos(value, E'\u11a7') > 0 then
    return (
      select string_agg(normalize(part, nfc), E'\u11a7' order by ord)
      from string_to_table(value, E'\u11a7') with ordinality as split(part, ord));
  end if;
  return normalize(value, nfc);
end
$$;

-- Refuse characters that no PostgreSQL text can hold: U+0000 and halves of surrogate pairs. In JSON only escapes name
-- them. Backslashes are written in E'' strings, as in _check_jobs.
create or replace function asyncq._check_escapes(value json, path text) returns void
  language plpgsql immutable
  as $$
declare
  escapes text := value;
begin
  if strpos(escapes, E'\\u') = 0 then
    return;
  end if;
  -- Without escaped backslashes, after which a u is a plain one, and without whole pairs.
  escapes := replace(escapes, E'\\\\', '..');
  escapes := regexp_replace(
    escapes, E'\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}', '..', 'g');
  if strpos(escapes, E'\\u0000') > 0 then
    raise exception using errcode = 'GWBUP', column = path,
      message = path || ' holds U+0000, which PostgreSQL cannot store as text';
  elsif escapes ~ E'\\\\u[dD][89a-fA-F]' then
    raise exception using errcode = 'GWBUP', column = path,
      message = path || ' holds half of a surrogate pair, which is no character';
  end if;
end
$$;
