-- get_job(id bigint) -> document text, errors text, steps text
select document, asyncq._errors($1::bigint)::text as errors, asyncq._steps_of($1::bigint)::text as steps
from (
  select asyncq._document(job)::text from asyncq._jobs as job where job.id = $1::bigint
  union all
  select asyncq._document(job)::text from asyncq._batched_jobs($1::bigint) as job
  union all
  select asyncq._ended_document(job)::text from asyncq._ended_jobs as job where job.id = $1::bigint and job.run_at is not null)
  as found(document)
