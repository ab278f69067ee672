-- register_worker(lease_s float8, pid int, concurrency int, host text, tasks text[]) -> id int
insert into asyncq._workers (lease, pid, concurrency, host, tasks)
values (make_interval(secs => $1::float8), $2, $3, $4, $5) returning id
