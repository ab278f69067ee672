-- backlog(tasks text[], most int) -> jobs bigint
select asyncq.backlog($1::text[], $2::int) as jobs
