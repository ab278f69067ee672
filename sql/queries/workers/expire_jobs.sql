-- expire_jobs(most int) -> ids text
-- As text: before its first array the driver would query the catalog.
select asyncq._expire_jobs($1)::text as ids
