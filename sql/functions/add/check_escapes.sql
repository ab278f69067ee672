-- Refuse what no PostgreSQL text can hold: U+0000 and halves of surrogate pairs, which only escapes in JSON can name.
-- Backslashes stand in E'' strings: the caller may have switched standard_conforming_strings off.

create or replace function asyncq._check_escapes(value json, path text) returns void
  language plpgsql immutable
  as $$
declare
  escapes text := value;
begin
  if strpos(escapes, E'\\u') = 0 then
    return;
  end if;
  -- Less escaped backslashes, after which a u is a plain one, and less whole pairs.
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
