-- remove_worker(worker int) -> id int
delete from asyncq._workers where id = $1 returning id
