-- expire_jobs(most int) -> ids bigint[]
select asyncq._expire_jobs($1) as ids
