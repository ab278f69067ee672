-- clock() -> now timestamptz
select asyncq.clock() as now
