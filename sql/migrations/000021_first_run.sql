-- A schema that has no worker yet knows the run of the server in which it is made: nobody could be cut off before. Without a
-- row the run would begin with the first look of a worker.

insert into asyncq._server_runs (since)
select pg_catalog.pg_postmaster_start_time() where not exists (select from asyncq._workers)
on conflict do nothing;
