-- write_progress(reports text) -> job_id bigint
with report as (
  select sent.job_id, sent.locked_by, sent.lock_token, sent.done, sent.total, sent.note
  from jsonb_to_recordset($1::text::jsonb)
    as sent(job_id bigint, locked_by int, lock_token bigint, done float8, total float8, note text)),
ended as (
  delete from asyncq._progress as stored using report
  where report.done is null and stored.job_id = report.job_id and stored.locked_by = report.locked_by
    and stored.lock_token = report.lock_token)
insert into asyncq._progress (job_id, locked_by, lock_token, done, total, note, reported_at)
select report.job_id, report.locked_by, report.lock_token, report.done, report.total, report.note, asyncq.clock()
from report
where report.done is not null
on conflict (job_id, locked_by, lock_token) do update set
  done = excluded.done, total = excluded.total, note = excluded.note, reported_at = excluded.reported_at
returning job_id
