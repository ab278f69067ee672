-- A number as canonical JSON: what ECMAScript's Number::toString makes of the nearest double (RFC 8785, 3.2.2.3).
-- literal is the number as it stands in the JSON text, such as 1.50 or 1E3; path says where, for the error.
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
  -- float8out leaves out the shortest form where it lies exactly between two doubles, which happens only here.
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
