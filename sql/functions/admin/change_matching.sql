-- Change the jobs that match a filter (see find_jobs), the oldest first: those with an id up to up_to_id and behind
-- after_id, at most so many; in one call at most `look` rows are read. A job that no longer matches once it is locked
-- is left alone.
--
--   action      retry, cancel, complete, discard, reschedule: as the functions for ids. remove: waiting and discarded jobs are
--               deleted with their failed attempts
--   up_to_id    jobs that were added later are left alone
--   options     run_at, priority, attempts, max_attempts for reschedule; error, the last error, for discard
--
-- Returns the ids of the jobs that were changed, and the id behind which the next call begins; null: none is left.
create or replace function asyncq.change_matching(
  filter jsonb, action text, up_to_id bigint, most int default 1000, after_id bigint default null, options jsonb default '{}',
  look int default 10000, out changed bigint[], out next_id bigint)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  actions constant text[] := '{cancel,complete,discard,remove,reschedule,retry}';
  known constant text[] := case action
    when 'reschedule' then '{run_at,priority,attempts,max_attempts}'::text[] when 'discard' then '{error}' else '{}' end;
  given record;
  unknown text;
  page record;
begin
  if action is null or action <> all(actions) then
    raise exception using errcode = '22023', column = 'action',
      message = format('action is %s, expected %s', coalesce(to_json(action)::text, 'null'), array_to_string(actions, ', '));
  elsif up_to_id is null then
    raise exception using errcode = '22023', column = 'up_to_id', message = 'up_to_id must be an id';
  end if;
  select name into unknown from jsonb_object_keys(options) as name where name <> all(known) limit 1;
  if found then
    raise exception using errcode = '22023', column = 'options',
      message = format('options of %s has the unknown member %s', action, to_json(unknown));
  end if;
  select record.run_at, record.priority, record.attempts, record.max_attempts, record.error into given
    from jsonb_to_record(options) as record(run_at timestamptz, priority int, attempts int, max_attempts int, error text);
  if action = 'reschedule' then
    perform asyncq._check_changes(given.run_at, given.priority, given.attempts, given.max_attempts);
  end if;
  perform asyncq._check_page(most, look);
  page := asyncq._find_ids(filter, after_id, false, most, look, up_to_id);
  changed := array(
    select (done.shown).id
    from asyncq._administer_jobs(
      action, page.ids, given.error, given.run_at, given.priority, given.attempts,
      given.max_attempts, filter) as done);
  next_id := page.next_id;
end
$$;

-- How many jobs change_matching would consider, by their states: up to `most`, in at most `look` rows behind after_id.
-- up_to_id null is the greatest id until now. Returns it too, and the id behind which the next call begins; null: no
-- job is left.
create or replace function asyncq.count_matching(
  filter jsonb, inout up_to_id bigint default null, after_id bigint default null, most int default 10001, look int default 5000,
  out states jsonb, out next_id bigint)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  as $$
declare
  page record;
begin
  perform asyncq._check_page(least(most, 1000), look);
  up_to_id := coalesce(up_to_id, pg_sequence_last_value('asyncq._jobs_id_seq'::regclass), 0);
  page := asyncq._find_ids(filter, after_id, false, most, look, up_to_id);
  next_id := page.next_id;
  -- A join would read each row by a scan of its own. A job of a batch has no row: it runs.
  states := (
    with listed as materialized (
      select asyncq._state(job) as state, count(*) as jobs
      from asyncq._jobs as job where job.id = any(page.ids) group by 1)
    select coalesce(jsonb_object_agg(counted.state, counted.jobs), '{}')
    from (
      select each.state, sum(each.jobs) as jobs
      from (
        select listed.state, listed.jobs from listed
        union all
        select 'active', cardinality(page.ids) - coalesce(sum(listed.jobs), 0) from listed) as each(state, jobs)
      group by each.state having sum(each.jobs) > 0) as counted);
end
$$;
