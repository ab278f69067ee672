-- The options after and if_failed of an add, checked: as a member of the record of a job's options. {} without ids.
-- given has all options without nulls. The column extras has if_failed.
create or replace function asyncq._after(given jsonb, job_key text) returns jsonb
  language plpgsql immutable
  as $$
declare
  fault text;
  awaited bigint[];
begin
  if not given ?| '{after,if_failed}' then
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
  end;
  if fault is not null then
    raise exception using errcode = 'GWBAF', column = split_part(fault, ' ', 1), message = fault;
  end if;
  awaited := array(
    select distinct id::bigint from jsonb_array_elements_text(given -> 'after') as id order by 1);
  return case when awaited = '{}' then '{}' else jsonb_build_object('after', awaited) end;
end
$$;
