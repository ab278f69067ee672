-- End the claims of marked jobs, whatever came of their runs: those that were cancelled end, those that were asked for again
-- begin anew. The caller has locked the rows and frees the queues; rows without a mark keep their claims. Whoever takes a
-- claim away has to call this first: a mark without a claim cannot be stored.
-- Returns the ids, with 'cancelled' or 'rerun'.

create or replace function asyncq._end_marked(ids bigint[]) returns table (id bigint, ending text)
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  cancelled bigint[];
  again bigint[];
begin
  select array_agg(job.id) filter (where job.cancelled_at is not null),
      array_agg(job.id) filter (where job.cancelled_at is null and job.rerun is not null)
    into cancelled, again
    from asyncq._jobs as job where job.id = any(ids);
  if cancelled is not null then
    perform asyncq._end_jobs(cancelled, 'cancelled');
  end if;
  if again is not null then
    perform asyncq._rerun_jobs(again);
  end if;
  return query
    select unnest(cancelled), 'cancelled'
    union all
    select unnest(again), 'rerun';
end
$$;
