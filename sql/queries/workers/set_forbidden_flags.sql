-- set_forbidden_flags(worker int, forbidden_flags text[]) -> id int
-- The flags that the worker forbids from its next fetch on: explain reads them.
update asyncq._workers set forbidden_flags = $2 where id = $1 returning id
