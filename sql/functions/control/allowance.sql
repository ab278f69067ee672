-- Rates are counted in ten cells for each period: a start in a cell counts until ten more have passed. So in any period
-- at most as many start as the rate says, and in the long run at least ten elevenths of it. The number of the newest
-- cell is stored as cell; cells are the starts in it and in the ten before it.
--
-- A handler starts later than the claim that is counted: at most by _start_within. So a period is longer here, by as
-- much, than the rate says.

-- How many starts a rate allows at a moment; null without a rate.
create or replace function asyncq._allowance(rate int, per_s float8, cell bigint, cells int[], moment timestamptz) returns int
  language sql stable parallel safe
  as $$
  select case when cells is null then rate else (
    select rate - coalesce(sum(used) filter (where cell - (age - 1) >= asyncq._cell(per_s, moment) - 10), 0)::int
    from pg_catalog.unnest(cells) with ordinality as past(used, age) where not asyncq._is_ahead(per_s, cell, moment)) end
  $$;

-- So many seconds after its claim a job has to start, under a rate of this period: a twentieth of it, 0.1 s to 5 s. A
-- large fetch takes longer than 0.1 s. Claims that are too late are returned, and count.
create or replace function asyncq._start_within(per_s float8) returns float8
  language sql immutable parallel safe
  as $$ select case when per_s > 0 then greatest(0.1, least(per_s / 20, 5)) end $$;

-- The number of the cell of a moment.
create or replace function asyncq._cell(per_s float8, moment timestamptz) returns bigint
  language sql immutable parallel safe
  as $$ select pg_catalog.floor(extract(epoch from moment)::float8 * 10 / (per_s + asyncq._start_within(per_s)))::bigint $$;

-- Whether a stored number is a period or more ahead, so it is one of cells of another length. It is compared with the
-- clock too: the moment of a fetch may be long ago, and another fetch has counted its starts since.
create or replace function asyncq._is_ahead(per_s float8, cell bigint, moment timestamptz) returns boolean
  language sql volatile parallel safe
  as $$ select cell > asyncq._cell(per_s, greatest(moment, asyncq.clock())) + 10 $$;

-- The number of the newest cell after a start: that of the moment, or a later one. A fetch that began before another
-- one may lock the partition after it, and must not make the starts of the other one older.
create or replace function asyncq._newest_cell(per_s float8, cell bigint, moment timestamptz) returns bigint
  language sql volatile parallel safe
  as $$ select greatest(case when not asyncq._is_ahead(per_s, cell, moment) then cell end, asyncq._cell(per_s, moment)) $$;

-- The time from which the oldest counted starts count no longer; null if no start counts.
create or replace function asyncq._allowed_at(per_s float8, cell bigint, cells int[], moment timestamptz) returns timestamptz
  language sql stable parallel safe
  as $$
  select pg_catalog.to_timestamp((cell - max(age) + 12) * (per_s + asyncq._start_within(per_s)) / 10)
  from pg_catalog.unnest(cells) with ordinality as past(used, age)
  where used > 0 and cell - (age - 1) >= asyncq._cell(per_s, moment) - 10 and not asyncq._is_ahead(per_s, cell, moment)
  $$;

-- The cells after so many more starts, which count in the newest cell.
create or replace function asyncq._spent(per_s float8, cell bigint, cells int[], starts int, moment timestamptz) returns int[]
  language sql stable parallel safe
  as $$
  select array[shifted.cells[1] + starts] || shifted.cells[2:11]
  from (
    select (pg_catalog.array_fill(0, array[least(11, greatest(0, asyncq._cell(per_s, moment) - coalesce(cell, 0)))::int])
      || coalesce(case when not asyncq._is_ahead(per_s, cell, moment) then _spent.cells end, pg_catalog.array_fill(0, array[11])))[1:11] as cells) as shifted
  $$;

-- Put all starts of these partitions into the cell of this moment. Their rate has another period now, so their cells
-- have another length and other numbers. Each start counts from now on for the new period. A fetch with an older
-- snapshot may later write the number of a cell of the old length. So cells a period or more ahead do not count.
create or replace function asyncq._gather_starts(ids bigint[], per_s float8) returns void
  language sql volatile
  as $$
  update asyncq._partitions as held
  set cell = asyncq._cell(_gather_starts.per_s, asyncq.clock()),
    cells = array[(select coalesce(sum(used), 0)::int from pg_catalog.unnest(held.cells) as used)] || pg_catalog.array_fill(0, array[10])
  where held.id = any(ids) and held.cells is not null and _gather_starts.per_s is not null
  $$;
