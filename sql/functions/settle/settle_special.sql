-- Settle what the plain statements leave alone: claims of jobs that were cancelled, that were asked for again, or that have
-- ended well and are to be kept. The fence and the arrays work as in settle_completed; rows that another transaction holds are
-- skipped, never waited for. Job rows first, then queues.
-- Returns the ids of those that were written, with what became of them: 'cancelled', 'rerun' or 'completed'.

create or replace function asyncq._settle_special(worker int, ids bigint[], tokens bigint[], done boolean[])
  returns table (id bigint, ending text)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  held bigint[];
  queues text[];
  kept bigint[];
begin
  held := array(
    select id from asyncq._jobs
    where id = any(ids) and locked_by = worker and lock_token = tokens[width_bucket(id, ids)]
      and (cancelled_at is not null or rerun is not null
        or keep_until is not null and done[width_bucket(id, ids)])
    order by id for update skip locked);
  if cardinality(held) = 0 then
    return;
  end if;
  queues := array(select queue from asyncq._jobs where id = any(held) and queue is not null);
  return query select ended.id, ended.ending from asyncq._end_marked(held) as ended;
  kept := array(select id from asyncq._jobs where id = any(held) and locked_by = worker);
  perform asyncq._end_jobs(kept, 'completed');
  return query select unnest(kept), 'completed';
  delete from asyncq._queues where name = any(queues) and locked_by = worker;
end
$$;
