-- Jobs that have rows, as the view shows them and as documents, in the order of their ids, one probe each. Volatile: it sees what its caller has
-- just done.

create or replace function asyncq._shown(ids bigint[]) returns table (shown asyncq.jobs, document text)
  language sql volatile
  as $$
  select seen.line, written.document
  from unnest(ids) as given(id)
  cross join lateral (
    select row(shown.*)::asyncq.jobs from asyncq._shown_jobs as shown where shown.id = given.id offset 0) as seen(line)
  cross join lateral (
    select asyncq._document(job)::text from asyncq._jobs as job where job.id = given.id offset 0) as written(document)
  order by given.id
  $$;
