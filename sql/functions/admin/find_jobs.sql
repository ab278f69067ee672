-- A page of the jobs that have not ended and match a filter, by their ids: the newest first, or the oldest first. It
-- begins behind from_id (null: at the first one), has at most `most` jobs, and reads at most `look` rows. Returns
-- {"jobs": [..], "next": id}. The next page begins behind `next`, also if this one is empty, since few jobs match;
-- null is the end. Members of the result may be added.
create or replace function asyncq.find_jobs(
  filter jsonb default '{}', from_id bigint default null, newest boolean default true, most int default 50, look int default 10000)
  returns json
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
  select json_build_object(
    'jobs', coalesce(json_agg(found.document::json order by found.ord) filter (where found.document is not null), '[]'),
    'next', max(found.next_id))
  from asyncq._find_jobs(filter, from_id, newest, most, look) with ordinality as found(document, next_id, ord)
  $$;

-- The work of find_jobs: a row for each job, as a document, then one that says where the next page begins.
create or replace function asyncq._find_jobs(filter jsonb, from_id bigint, newest boolean, most int, look int)
  returns table (document text, next_id bigint)
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  as $$
#variable_conflict use_column
declare
  page record;
begin
  perform asyncq._check_page(most, look);
  page := asyncq._find_ids(filter, from_id, newest, most, look);
  return query
    with rows as materialized (
      select given.ord, written.document
      from unnest(page.ids) with ordinality as given(id, ord)
      left join lateral (
        select asyncq._document(job)::text as document from asyncq._jobs as job where job.id = given.id offset 0) as written on true)
    select coalesce(rows.document, batched.document), null::bigint
    from rows
    left join (
      select job.id, asyncq._document(job)::text as document
      from asyncq._batched_jobs() as job
      where job.id = any(page.ids) and exists (select from rows where rows.document is null)) as batched
      on batched.id = page.ids[rows.ord]
    order by rows.ord;
  return query select null::text, page.next_id;
end
$$;

-- The ids of find_jobs, in its order, and the id behind which the next page begins; null: nothing is left. A row whose
-- payload is searched counts as two. If a payload is among them that jsonb cannot hold, the rows are read once more,
-- by a slower condition.
create or replace function asyncq._find_ids(
  filter jsonb, from_id bigint, newest boolean, most int, look int, up_to_id bigint default null,
  out ids bigint[], out next_id bigint)
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
declare
  quick constant text := asyncq._condition(filter, quickly => true);
  rows constant int := case when filter ? 'has' then (look + 1) / 2 else look end;
begin
  select walked.ids, walked.next_id into ids, next_id
    from asyncq._walk(filter, quick, from_id, newest, most, rows, up_to_id) as walked;
exception when data_exception or program_limit_exceeded then
  select walked.ids, walked.next_id into ids, next_id
    from asyncq._walk(filter, asyncq._condition(filter), from_id, newest, most, rows, up_to_id) as walked;
end
$$;

-- The work of _find_ids, by the condition of the filter. It walks along the primary key. If an index has all jobs that
-- can match, and these are few, it reads those instead. The statements are written for the filter: a condition that is
-- not given costs nothing.
create or replace function asyncq._walk(
  filter jsonb, matches text, from_id bigint, newest boolean, most int, look int, up_to_id bigint, out ids bigint[], out next_id bigint)
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set enable_bitmapscan = off
  set jit = off
  as $$
declare
  "order" constant text := case when newest then 'desc' else 'asc' end;
  bounds constant text := concat_ws(
    ' and ', 'true', 'job.id ' || case when newest then '< ' else '> ' end || from_id, 'job.id <= ' || up_to_id);
  arms constant text[] := asyncq._arms(filter);
  are_few boolean := false;
  batched bigint[];
begin
  if arms is not null then
    execute format('select not exists (%s offset %s limit 1)',
      (select string_agg('select from asyncq._jobs as job where ' || arm, ' union all ') from unnest(arms) as arm), look)
      into are_few;
  end if;
  if are_few then
    execute format('with found as materialized (%s) select array(select distinct id from found order by id %s limit %s)',
      (select string_agg(format('select job.id from asyncq._jobs as job where %s and %s and %s', arm, bounds, matches), ' union all ')
        from unnest(arms) as arm), "order", most)
      into ids;
  else
    execute format(
      'select array(select id from (select job.id, %s as matches from asyncq._jobs as job where %s order by job.id %s limit %s) as looked
        where matches limit %s)', matches, bounds, "order", look, most)
      into ids;
    if cardinality(ids) < most then
      execute format('select job.id from asyncq._jobs as job where %s order by job.id %s offset %s limit 1', bounds, "order", look - 1)
        into next_id;
    end if;
  end if;
  -- Jobs of batches run, and have no key, no flag and no error. Those behind the last row are left to the next page.
  if exists (select from asyncq._batches) and not filter ?| '{key,flag,error}' and coalesce(filter ->> 'state', 'active') = 'active' then
    execute format('select array(select job.id from asyncq._batched_jobs() as job where %s and %s and %s order by job.id %s limit %s)',
      matches, bounds, coalesce('job.id ' || case when newest then '>= ' else '<= ' end || next_id, 'true'), "order", most)
      into batched;
    execute format('select array(select id from unnest($1 || $2) as id order by id %s limit %s)', "order", most)
      into ids using ids, batched;
  end if;
  if cardinality(ids) = most then
    next_id := ids[most];
  end if;
end
$$;

-- Refuse a page of less than 1 or more than 1000 jobs, or of less than 1 or more than 1,000,000 rows.
create or replace function asyncq._check_page(most int, look int) returns void
  language plpgsql immutable
  as $$
begin
  if most between 1 and 1000 and look between 1 and 1000000 then
    return;
  end if;
  raise exception using errcode = '22023', column = case when most between 1 and 1000 then 'look' else 'most' end,
    message = case when most between 1 and 1000 then 'look is ' || coalesce(look::text, 'null') || ', expected 1 to 1000000'
      else 'most is ' || coalesce(most::text, 'null') || ', expected 1 to 1000' end;
end
$$;

-- A filter as a condition of SQL on a job, which is named job: the only place that knows what each member means. The
-- cheap parts come first. Quickly: it may fail for a payload that jsonb cannot hold.
--
--   state, task, queue, flag, key  the job has it
--   has                      its payload contains this, as @> of jsonb
--   error                    its last error contains this text, whatever the case of ASCII letters
--   due_before, added_after  it is due before that moment, or was added at that moment or later
create or replace function asyncq._condition(filter jsonb, quickly boolean default false) returns text
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
declare
  states constant text[] := '{scheduled,available,active,retryable,pending,cancelled,discarded}';
  members constant text[] := '{task,queue,flag,key,due_before,added_after,state,error,has}';
  conditions text[] := '{true}';
  given record;
begin
  if jsonb_typeof(coalesce(filter, 'null')) <> 'object' then
    raise exception using errcode = '22023', column = 'filter', message = 'filter must be an object';
  end if;
  for given in
    select each.key as member, each.value, each.value #>> '{}' as text from jsonb_each(filter) as each
    where each.value <> 'null' or each.key <> all(members)
    order by array_position(members, each.key)
  loop
    if given.member <> all(members) then
      raise exception using errcode = '22023', column = 'filter',
        message = format('filter has the unknown member %s, expected %s', to_json(given.member), array_to_string(members, ', '));
    elsif given.member <> 'has' and jsonb_typeof(given.value) <> 'string' then
      raise exception using errcode = '22023', column = given.member, message = format('%s in filter must be a text', given.member);
    elsif given.member = 'state' and given.text <> all(states) then
      raise exception using errcode = '22023', column = 'state',
        message = format('state in filter is %s, expected %s', given.value, array_to_string(states, ', '));
    end if;
    conditions := conditions || case given.member
      when 'state' then format('asyncq._state(job) = %L', given.text)
      when 'task' then coalesce(
        'job.task_id = ' || (select task.id from asyncq._tasks as task where task.identifier = given.text), 'false')
      when 'queue' then format('job.queue = %L', given.text)
      when 'flag' then format('job.flags ? %L', given.text)
      when 'key' then format('job.key = %L', given.text)
      when 'has' then format(
        case when quickly then 'job.payload::jsonb @> %L' else 'asyncq._holds(job.payload, %L)' end, given.value)
      when 'error' then format('strpos(lower(job.last_error), %L) > 0', lower(given.text))
      when 'due_before' then format('coalesce(job.due_at, job.run_at) < %L', asyncq._moment(given.member, given.text))
      else format('job.created_at >= %L', asyncq._moment(given.member, given.text))
    end;
  end loop;
  return array_to_string(conditions, ' and ');
end
$$;

-- Conditions for the jobs that can match a filter, each with an index of its own; null: there is no such index.
create or replace function asyncq._arms(filter jsonb) returns text[]
  language sql stable
  as $$
  select case
    when filter ->> 'key' is not null then array[format('job.key = %L', filter ->> 'key')]
    when filter ->> 'state' = 'discarded' then '{asyncq._is_discarded(job)}'
    when filter ->> 'state' in ('active', 'cancelled') then '{job.locked_at is not null}'
    when filter ->> 'queue' is not null then array[
      format('job.partition = %s and asyncq._is_ready(job)', asyncq._partition(1::smallint, filter ->> 'queue')),
      'job.locked_at is not null',
      'asyncq._is_discarded(job)']
  end
  $$;

-- Whether a payload contains a value. One that jsonb cannot hold, such as the number 1e999999, contains nothing.
create or replace function asyncq._holds(payload json, wanted jsonb) returns boolean
  language plpgsql immutable parallel safe
  as $$
begin
  return payload::jsonb @> wanted;
exception when data_exception or program_limit_exceeded then
  return false;
end
$$;

-- A moment of a filter, whatever the zone and style of the session.
create or replace function asyncq._moment(member text, written text) returns timestamptz
  language plpgsql stable
  as $$
begin
  return written::timestamptz;
exception when data_exception then
  raise exception using errcode = '22023', column = member, message = format('%s in filter is no time: %s', member, to_json(written));
end
$$;
