-- watch_workers(worker int) -> workers int, rank int, clock_s float8, dead bool, grace_left_s float8
select workers, rank, clock_s, dead, grace_left_s from asyncq._watch_workers($1)
