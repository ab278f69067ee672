-- What idle workers offer: to take the next job that is added by itself at once. The add claims it for the worker and sends it
-- along, so that no worker has to look for it. A worker has a row here for as long as it has one in _workers: nobody can offer who is
-- not known, whose claims nobody would return.
--   token    of the claim; null: nothing is offered
--   job_id   the job that was claimed by it: the offer is taken, until its worker makes a new one
--   channel  where the worker hears of that, a secret: who knows it could have the worker run what is no job

create table asyncq._offers (
  token bigint,
  job_id bigint,
  worker_id int constraint offers_pkey primary key
    constraint offers_worker_id_fkey references asyncq._workers on delete cascade,
  channel text collate "C",
  task_ids int[],
  constraint offers_taken_check check (job_id is null or token is not null)
) with (
  -- As for _workers: a few rows, written all the time, without a change of what is indexed.
  fillfactor = 50,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_cost_delay = 0,
  vacuum_truncate = off
);

drop function if exists asyncq._add_keyless_job(text, json, text, timestamptz, int, int, jsonb, jsonb);
-- Workers that are there before this release make no offers.
insert into asyncq._offers (worker_id) select id from asyncq._workers;
