-- A text in Unicode's form NFC: texts that look the same become the same. The database's encoding has to be UTF8.

create or replace function asyncq._nfc(value text) returns text
  language plpgsql immutable strict
  as $$
begin
  if octet_length(value) = length(value) then
    return value;
  end if;
  -- PostgreSQL's own swallows U+11A7 behind a Hangul syllable, taking it for the absence of a last consonant. The
  -- character composes with nothing, so that what stands before and behind it can be normalised apart.
  if strpos(value, E'\u11a7') > 0 then
    return (
      select string_agg(normalize(part, nfc), E'\u11a7' order by ord)
      from string_to_table(value, E'\u11a7') with ordinality as split(part, ord));
  end if;
  return normalize(value, nfc);
end
$$;
