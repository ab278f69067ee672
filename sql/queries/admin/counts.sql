-- counts(exactly boolean) -> state text, jobs bigint, is_exact boolean
select state, jobs, is_exact from asyncq._counts($1::boolean)
