-- What an idle worker offers is an empty batch: the add that takes the offer fills it, and has no row to insert.
--   token         of the batch; null: nothing is offered. The offer is taken once that batch is not there, empty
--   packable_ids  of task_ids, those whose jobs a batch may hold

alter table asyncq._offers
  drop constraint offers_taken_check,
  drop column job_id,
  add column packable_ids int[];
drop function if exists asyncq._make_offer(int, bigint, bigint, int[], text, boolean);
