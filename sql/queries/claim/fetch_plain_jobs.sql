-- fetch_plain_jobs(worker int, token bigint, max int, task_ids text, forbidden_flags text[], after_priority int2, after_run_at timestamptz, after_id bigint, now timestamptz, since_s float8, beside_queues bool, pack_from int, packable_ids text) -> id bigint, task_id int, max_attempts int2, priority int2, run_at bytea, created_at bytea, updated_at bytea, key text, payload json, rest text, ids bytea, task_ids bytea, limits bytea, priorities bytea, due bytea, created bytea, payloads text
-- fetch_jobs for the usual case, at half its price: no job of a named queue waits. Where one does, nothing is claimed, and
-- the caller asks fetch_jobs; unless beside_queues says that they do not matter now. To tell a column costs the client more
-- than to ask for it costs here, so that what is usual is not told: a null created_at is run_at, a null updated_at is
-- created_at, and rest is null for a job that was only added.
--
-- Where at least pack_from of them are of packable_ids and were only added, these are claimed as one batch, for less: their
-- rows go, and one row in _batches stands for them all. They are told in one row too, by the columns from ids on, of which
-- created is null where it is due; the last one holds the payloads, parted by U+001E, which no JSON holds. They are deleted
-- where they were locked, which finds none that was written after this statement had begun: its newest version is not seen by
-- place, and is claimed in the row.
with recursive
priorities(priority, after_run_at, after_id) as (
  (select priority,
      greatest(
        case when priority = $6 then coalesce($7, '-infinity'::timestamptz) else '-infinity'::timestamptz end,
        coalesce($9, asyncq.now()) - make_interval(secs => $10)),
      case when priority = $6 then coalesce($8, 0::bigint) else 0 end
    from asyncq._jobs as job
    where job.queue is null and asyncq._is_ready(job)
      and (priority, run_at, id)
        > (coalesce($6, -32768)::int2, coalesce($7, '-infinity'::timestamptz), coalesce($8, 0::bigint))
    order by priority, run_at, id limit 1)
  union all
  select further.priority, coalesce(coalesce($9, asyncq.now()) - make_interval(secs => $10), '-infinity'), 0::bigint
  from priorities
  cross join lateral (
    select priority from asyncq._jobs as job
    where job.queue is null and asyncq._is_ready(job) and priority > priorities.priority
    order by priority limit 1) as further),
plain as materialized (
  select ready.id, ready.place, ready.is_packable
  from priorities
  cross join lateral (
    select id, job.ctid as place,
      asyncq._is_known(job, (select $13::text::int[])) and asyncq._is_packable(job) as is_packable
    from asyncq._jobs as job
    where job.queue is null and asyncq._is_ready(job)
      and priority = priorities.priority
      and (run_at, id) > (priorities.after_run_at, priorities.after_id)
      and asyncq._is_due(job, coalesce($9, asyncq.now()))
      and asyncq._is_known(job, (select $4::text::int[])) and asyncq._is_allowed(job, $5)
    order by run_at, id limit $3::int
    for update skip locked) as ready
  limit case
    when $11 then $3
    when exists (select from asyncq._jobs as job where job.queue is not null and asyncq._is_ready(job)) then 0
    else $3
  end),
chosen as materialized (select array_agg(place) as places from plain where is_packable having count(*) >= $12::int),
packed as (
  delete from asyncq._jobs where ctid = any((select places from chosen)::tid[])
  returning id, task_id, max_attempts, priority, run_at, created_at, payload),
batch as (
  insert into asyncq._batches
      (lock_token, locked_at, locked_by, open, ids, run_at, created_at, task_id, priority, max_attempts, payload)
    select $2, coalesce($9, asyncq.now()), $1, repeat('1', count(*)::int)::varbit, array_agg(id), array_agg(run_at),
      array_agg(created_at), array_agg(task_id), array_agg(priority), array_agg(max_attempts), array_agg(payload)
    from (
      select id, run_at, created_at, task_id, priority, max_attempts, payload from packed order by id) as in_order
    having count(*) > 0
  returning ids, task_id, max_attempts, priority, run_at, created_at, payload),
moved as (
  select unnest(array(select id from plain where is_packable except select id from packed)) as id
  where (select count(*) from packed) < (select cardinality(places) from chosen)),
claimed as (
  update asyncq._jobs
  set locked_by = $1, locked_at = coalesce($9, asyncq.now()), lock_token = $2
  where id = any(array(
    select id from plain where not is_packable or not exists (select from chosen)
    union all
    select id from moved))
  returning id, task_id, max_attempts, priority, run_at, created_at, updated_at, key, payload,
    case when attempts > 0 or interruptions > 0 or revision > 0 or flags is not null or meta is not null
        or last_error is not null
      then json_build_array(attempts, interruptions, revision, flags::text, meta::text, last_error)::text
    end as rest)
select id, task_id, max_attempts, priority, timestamptz_send(run_at) as run_at,
  timestamptz_send(nullif(created_at, run_at)) as created_at,
  timestamptz_send(nullif(updated_at, created_at)) as updated_at,
  key, payload, rest,
  null::bytea as ids, null::bytea as task_ids, null::bytea as limits, null::bytea as priorities, null::bytea as due,
  null::bytea as created, null as payloads
from claimed
union all
select null, null, null, null, null, null, null, null, null, null,
  array_send(ids), array_send(task_id), array_send(max_attempts), array_send(priority), array_send(run_at),
  array_send(nullif(created_at, run_at)), array_to_string(payload, chr(30))
from batch
