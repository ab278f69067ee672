-- settle_completed(worker int, ids text, tokens text) -> written text
-- Jobs that ended well are deleted and their queues freed, where this worker still holds the very claim. ids are sorted,
-- tokens stand beside them: width_bucket finds an id's place by binary search. All are texts of arrays: the driver writes a
-- text sooner than an array, and would ask the catalog about an array before the first one. Rows that another transaction
-- holds are skipped, never waited for; those that were cancelled, asked for again or are to be kept are left to
-- settle_special; so are those that changed at the very moment, which have moved from the place where they were locked.
-- written are the ids of those that were, null for all: as rows, they would cost the client more than all else that it does
-- with this statement.
with given as materialized (select $2::text::bigint[] as ids, $3::text::bigint[] as tokens),
held as materialized (
  select ctid from asyncq._jobs
  where id = any((select ids from given)::bigint[]) and locked_by = $1
    and lock_token = ((select tokens from given)::bigint[])[width_bucket(id, (select ids from given)::bigint[])]
    and keep_until is null and rerun is null and cancelled_at is null
  order by id for update skip locked),
gone as (
  delete from asyncq._jobs where ctid = any(array(select ctid from held)) returning id, queue),
freed as (
  delete from asyncq._queues
  where name = any(array(select queue from gone where queue is not null)) and locked_by = $1)
select case when count(*) < cardinality((select ids from given)) then coalesce(array_agg(id), '{}')::text end as written from gone
