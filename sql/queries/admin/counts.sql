-- counts(exactly boolean) -> state text, jobs bigint, is_exact boolean, paused bigint
select state, jobs, is_exact, paused from asyncq._counts($1::boolean)
