-- queue_names(ids bigint[]) -> id bigint, name text
select id, name from asyncq._queues where id = any($1::bigint[])
