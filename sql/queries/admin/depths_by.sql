-- depths_by(queues int) -> task text, queue text, due bigint, waiting bigint, running bigint, failed bigint, is_exact bool
select task, queue, due, waiting, running, failed, is_exact from asyncq.depths_by($1::int)
