-- A new schema records the current run of the server: it has no worker that an outage could have cut off. Without this row the
-- run, and with it a return window, would begin when the first worker asks.

insert into asyncq._server_runs (since)
select pg_catalog.pg_postmaster_start_time() where not exists (select from asyncq._workers)
on conflict do nothing;
