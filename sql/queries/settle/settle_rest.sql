-- settle_rest(worker int, ids text, tokens text, ends text[], attempts text, delays_s text, errors text[], interruptions text, kinds text[], durations_s text, results text[], payloads text[]) -> id bigint, ending text
-- Arrays of numbers are texts: before the first array the driver would query the catalog. It knows arrays of texts.
select id, ending from asyncq._settle_rest($1, $2::text::bigint[], $3::text::bigint[], $4, $5::text::int[],
  $6::text::float8[], $7, $8::text::int[], $9, $10::text::float8[], $11, $12)
