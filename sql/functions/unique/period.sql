-- The period of a unique policy, an ISO 8601 duration such as PT1H or P3W4DT5H6M7.5S. Checked by a pattern first, as
-- PostgreSQL's own reader takes P-1D and PT too. What is below a microsecond is cut off.
-- Add it to a time in UTC, ((created_at at time zone 'UTC') + period) at time zone 'UTC': a day of a session's own time
-- zone may have 23 hours.

create or replace function asyncq._period(period text) returns interval
  language plpgsql immutable strict
  as $$
declare
  part text[];
  number bigint[];
begin
  part := regexp_match(period, '^P(?:([0-9]{1,10})Y)?(?:([0-9]{1,10})M)?(?:([0-9]{1,10})W)?(?:([0-9]{1,10})D)?'
    '(?:T(?:([0-9]{1,10})H)?(?:([0-9]{1,10})M)?(?:([0-9]{1,10})(?:[.]([0-9]{1,9}))?S)?)?$');
  if part is null or right(period, 1) in ('P', 'T') then
    raise exception using errcode = 'GWBUP', column = 'unique.period',
      message = 'unique.period ''' || left(period, 40) || ''' is no ISO 8601 duration, such as ''PT1H'' or ''P7D''';
  end if;
  number := array(
    select coalesce(text, '0')::bigint from unnest(part[1:7]) with ordinality as given(text, ord) order by ord)
    || rpad(coalesce(part[8], ''), 6, '0')::bigint;
  -- Years and months count as 366 and 30.5 days here.
  if (number[1] * 12 + number[2]) * 30.5 + number[3] * 7 + number[4]
    + (number[5] * 3600 + number[6] * 60 + number[7] + number[8] / 1000000.0) / 86400 > 36600 then
    raise exception using errcode = 'GWBUP', column = 'unique.period',
      message = 'unique.period ''' || period || ''' is longer than 36600 days; leave it out for no end';
  end if;
  return make_interval(
    months => (number[1] * 12 + number[2])::int, days => (number[3] * 7 + number[4])::int, hours => number[5]::int,
    mins => number[6]::int, secs => number[7] + number[8] / 1000000.0);
end
$$;
