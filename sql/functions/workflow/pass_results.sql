-- Pass the results of jobs on to waiters that take them: the result of the job at a place among those of its waiter. A
-- place or result that is null is skipped: a job without a result is a null in the payload.
create or replace function asyncq._pass_results(waiters bigint[], places int[], results text[]) returns void
  language plpgsql volatile
  as $$
begin
  insert into asyncq._inputs (waiter, place, size, result)
    select line.waiter, line.place, octet_length(line.result), line.result::json
    from unnest(waiters, places, results) as line(waiter, place, result)
    where line.place is not null and line.result is not null
    on conflict do nothing;
end
$$;

-- The payload of a waiter that takes results: the result of the one job that it waited for, or the list of all, in the
-- order of its option after; as the whole payload, or as its member takes_as.
create or replace function asyncq._with_inputs(job asyncq._jobs) returns json
  language plpgsql volatile
  as $$
declare
  name constant text := job.extras ->> 'takes_as';
  given text;
begin
  if job.extras ->> 'takes' = 'result' then
    given := (select input.result::text from asyncq._inputs as input where input.waiter = job.id and input.place = 1);
  else
    given := (
      select '[' || string_agg(coalesce(input.result::text, 'null'), ',' order by member.place) || ']'
      from generate_series(1, (job.extras ->> 'inputs')::int) as member(place)
      left join asyncq._inputs as input on input.waiter = job.id and input.place = member.place);
  end if;
  given := coalesce(given, 'null');
  return case
    when name is null then given
    when job.payload::text ~ E'^\\s*\\{\\s*\\}\\s*$' then '{' || to_json(name) || ':' || given || '}'
    when json_typeof(job.payload) = 'object'
      then regexp_replace(job.payload::text, E'\\}\\s*$', '') || ',' || to_json(name) || ':' || given || '}'
    else '{' || to_json(name) || ':' || given || '}'
  end;
end
$$;

-- Remove results whose waiter is not pending, at most so many rows: its end did not see them. One snapshot shows both.
create or replace function asyncq._prune_inputs(most int) returns void
  language sql volatile
  as $$
  delete from asyncq._inputs
  where ctid = any(array(
    select input.ctid from asyncq._inputs as input
    where not exists (
      select from asyncq._jobs as job where job.id = input.waiter and job.due_at is not null offset 0)
    limit most for update of input skip locked))
  $$;
