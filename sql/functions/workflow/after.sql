-- The options after, if_failed, takes and takes_as of an add, checked: as a member of the record of a job's options.
-- {} without ids. given has all options without nulls. The column extras has the others. A job that takes the results
-- of no jobs has an empty list as its payload.
create or replace function asyncq._after(given jsonb, job_key text) returns jsonb
  language plpgsql immutable
  as $$
declare
  fault text;
  awaited bigint[];
begin
  if not given ?| '{after,if_failed,takes,takes_as}' then
    return '{}';
  end if;
  fault := case
    when given ? 'after' and jsonb_typeof(given -> 'after') <> 'array' then 'after must be an array of ids of jobs'
    when jsonb_path_exists(given, '$.after[*] ? (@.type() != "number" || @ % 1 != 0 || @ < 1 || @ > 9223372036854775807)')
      then 'after must have the ids of jobs only'
    when jsonb_array_length(given -> 'after') > 100000
      then 'after has ' || jsonb_array_length(given -> 'after') || ' ids, at most 100000 are allowed'
    when given ? 'after' and job_key is not null
      then 'after goes without job_key: an add changes the waiting job that has its key'
    when given ? 'after' and given -> 'rerun' = 'true'
      then 'after goes without rerun: the job that runs would run again without waiting'
    when given ? 'if_failed' and not given ? 'after'
      then 'if_failed says what becomes of a job whose after has failed: it needs after'
    when given -> 'if_failed' <> all(array['"wait"'::jsonb, '"cancel"', '"run"'])
      then 'if_failed must be wait, cancel or run, got ' || left((given -> 'if_failed')::text, 60)
    when given ? 'takes' and not given ? 'after'
      then 'takes says that the results of other jobs are the payload: it needs after'
    when given -> 'takes' <> all(array['"result"'::jsonb, '"results"'])
      then 'takes must be result or results, got ' || left((given -> 'takes')::text, 60)
    when given -> 'takes' = '"result"' and jsonb_array_length(given -> 'after') <> 1
      then 'takes is result, which is that of one job, and after has ' || jsonb_array_length(given -> 'after') || ' ids'
    when given ? 'takes' and jsonb_array_length(given -> 'after') > (
        select count(distinct id) from jsonb_array_elements_text(given -> 'after') as id)
      then 'after names a job twice: with takes each has one place'
    when given ? 'takes_as' and not given ? 'takes' then 'takes_as names a member of the payload: it needs takes'
    when given ? 'takes_as' and (jsonb_typeof(given -> 'takes_as') <> 'string' or given ->> 'takes_as' = '')
      then 'takes_as must be the name of a member of the payload'
  end;
  if fault is not null then
    raise exception using errcode = 'GWBAF', column = split_part(fault, ' ', 1), message = fault;
  end if;
  awaited := array(
    select member.id::bigint from jsonb_array_elements_text(given -> 'after') with ordinality as member(id, place)
    group by member.id order by min(member.place));
  return case
    when awaited <> '{}' then jsonb_build_object('after', awaited)
    when not given ? 'takes' then '{}'
    when given ? 'takes_as' then jsonb_build_object('payload', jsonb_build_object(given ->> 'takes_as', '[]'::jsonb))
    else '{"payload": []}'
  end;
end
$$;

-- The members of the column extras of a job that takes the results of others: takes, takes_as, and the number of jobs.
-- {} if it takes none. _after refuses other values.
create or replace function asyncq._taken(given jsonb) returns jsonb
  language plpgsql immutable
  as $$
begin
  if not given ? 'takes' or jsonb_typeof(given -> 'after') <> 'array' or given -> 'after' = '[]' then
    return '{}';
  end if;
  return jsonb_build_object(
    'takes', given -> 'takes', 'takes_as', given -> 'takes_as', 'inputs', jsonb_array_length(given -> 'after'));
end
$$;
