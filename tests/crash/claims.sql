-- The ledger of claims: triggers record each claim and its end, in the transaction that makes them, and judge it by the
-- orders that its statement had to see. No clock decides that, only snapshots: an order is a row of chaos.orders, which
-- the operator inserts in the transaction of its call.
--
-- A fetch reads the rules of limits in its snapshot, and those of a key or a queue after it has locked the partition. A
-- claim that follows an end of the same partition in one statement reads all in its snapshot, and takes the place of
-- that end. So it may be made under a limit that was lowered since.

-- The tasks that have a limit: its name, whether it has a key, and the times of its rates, which never change.
create table chaos.limited (
  task text primary key, name text not null, has_key boolean not null, per_s float8, total_per_s float8);

-- What holds from the commit of a transaction on. The last row of a scope replaces those before.
--   scope  at_once limit NAME, total limit NAME, rate limit NAME, total_rate limit NAME, at_once key NAME KEY,
--          at_once queue NAME; or pause everything, pause task NAME, pause limit NAME, pause key NAME KEY, pause queue NAME
--   value  the number, null for none; of a pause 1 or null
create table chaos.orders (
  seq bigint generated always as identity primary key, made_in xid8 not null default pg_current_xact_id(),
  scope text not null, value int);
create index on chaos.orders (scope, seq);

-- A job of a tree, and another one that has to end first. Inserted in the transaction of the add.
create table chaos.edges (
  waiter bigint not null, job_id bigint not null, runs_anyhow boolean not null, primary key (waiter, job_id));

-- The runs of the last jobs of trees, each in the transaction of its end; and how many effects of other jobs it missed.
create table chaos.joined (number int not null, missing int not null);

-- Until when no job of a group starts. Inserted once the back-off is committed.
create table chaos.backed_off (
  made_in xid8 not null default pg_current_xact_id(), of_group text not null, until timestamptz not null);
create index on chaos.backed_off (of_group);

-- The claims. A group is a queue, or a key of a limit. The numbers and times of limits are those in the snapshot.
--   follows  whether an end of the group was in the same transaction
--   ahead    by how much the schema's clock is ahead
create table chaos.claims (
  seq bigint generated always as identity primary key, job_id bigint not null, worker int not null, token bigint not null,
  made_in xid8 not null default pg_current_xact_id(), ended_in xid8, task text not null, of_group text, of_limit text,
  follows boolean not null, claimed_at timestamptz not null, ahead interval not null,
  total int, rate int, per_s float8, total_rate int, total_per_s float8);
create index on chaos.claims (job_id) where ended_in is null;
create index on chaos.claims (of_group) where ended_in is null;
create index on chaos.claims (of_limit) where ended_in is null;
create index on chaos.claims (ended_in);

-- The claims that broke a law. A claim that is rolled back leaves none.
create table chaos.faults (law text not null, said text not null);

-- The value of a scope in a snapshot; without one, the newest.
create function chaos.value_in(wanted text, shown pg_snapshot) returns int
  language sql volatile
  as $$
  select orders.value from chaos.orders
  where orders.scope = wanted and (shown is null or pg_catalog.pg_visible_in_snapshot(orders.made_in, shown))
  order by orders.seq desc limit 1
  $$;

-- The greatest of the values that held at any time since a snapshot was made; none_is is that of no limit.
create function chaos.most_since(wanted text, shown pg_snapshot, none_is int) returns int
  language sql volatile
  as $$
  select coalesce(max(coalesce(held.value, none_is)), none_is)
  from chaos.orders as held
  where held.scope = wanted and held.seq >= coalesce((
    select max(before.seq) from chaos.orders as before
    where before.scope = wanted and pg_catalog.pg_visible_in_snapshot(before.made_in, shown)), 0)
  $$;

-- How many claims of a group there may be, by the newest order for the group, else by that for its limit in a snapshot.
-- If a claim follows another one, the greatest number since the snapshot. Null: as many as there are.
create function chaos.most_at_once(of_group text, of_limit text, shown pg_snapshot, follows boolean) returns int
  language sql volatile
  as $$
  select case when follows
    then chaos.most_since('at_once ' || of_group, shown, chaos.most_since('at_once limit ' || of_limit, shown, 32768))
    else coalesce(chaos.value_in('at_once ' || of_group, null), chaos.value_in('at_once limit ' || of_limit, shown)) end
  $$;

-- Record a claim. A split moves claims from a batch into rows: these are known.
create function chaos.note_claim(
  job bigint, by_worker int, by_token bigint, by_task int, in_queue text, with_payload json, at timestamptz, overtaken bigint)
  returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  shown constant pg_snapshot := current_setting('chaos.snapshot')::pg_snapshot;
  task_name constant text := (select identifier from asyncq._tasks where id = by_task);
  rules chaos.limited;
  key constant text := with_payload ->> 'key';
  made chaos.claims;
  read_in pg_snapshot;
  running int;
  most int;
begin
  if exists (
      select from chaos.claims where job_id = job and ended_in is null and worker = by_worker and token = by_token) then
    return;
  end if;
  if exists (select from chaos.claims where job_id = job and ended_in is null) then
    insert into chaos.faults values ('a job has one claim', format('job %s', job));
  end if;
  select * into rules from chaos.limited where task = task_name;
  made.of_limit := rules.name;
  made.of_group := case when in_queue is not null then 'queue ' || in_queue
    when rules.name is not null then concat_ws(' ', 'key', rules.name, case when rules.has_key then key end) end;
  made.follows := exists (
    select from chaos.claims where ended_in = pg_current_xact_id() and of_group = made.of_group);
  made.rate := case when in_queue is null then chaos.value_in('rate limit ' || rules.name, shown) end;
  made.total_rate := chaos.value_in('total_rate limit ' || rules.name, shown);
  made.total := chaos.value_in('total limit ' || rules.name, shown);
  insert into chaos.claims (
      job_id, worker, token, task, of_group, of_limit, follows, claimed_at, ahead, total, rate, per_s, total_rate,
      total_per_s)
    values (
      job, by_worker, by_token, task_name, made.of_group, made.of_limit, made.follows, at, at - now(),
      made.total, made.rate, rules.per_s, made.total_rate, rules.total_per_s)
    returning * into made;
  -- Null: the newest orders.
  read_in := case when made.follows then shown end;
  insert into chaos.faults
    select 'nothing that is paused starts', format('job %s of %s: %s', job, task_name, given.scope)
    from (values
        ('pause everything', shown), ('pause task ' || task_name, shown), ('pause limit ' || rules.name, shown),
        ('pause ' || made.of_group, read_in)) as given(scope, read_in)
    where chaos.value_in(given.scope, given.read_in) is not null;
  insert into chaos.faults
    select 'nothing that is backed off starts', format('job %s of %s at %s, until %s', job, made.of_group, at, until)
    from chaos.backed_off
    where of_group = made.of_group and until > at and (read_in is null or pg_visible_in_snapshot(made_in, read_in));
  insert into chaos.faults
    select 'nothing starts before what it waits for', format('job %s before job %s', job, edge.job_id)
    from chaos.edges as edge where edge.waiter = job
      and (exists (select from asyncq._jobs where id = edge.job_id)
        or not exists (select from asyncq._ended_jobs where id = edge.job_id));
  if overtaken is not null and chaos.most_since('at_once ' || made.of_group, shown, 32768) = 1 then
    insert into chaos.faults
      values ('a serial queue keeps its order', format('job %s of %s overtakes %s', job, made.of_group, overtaken));
  end if;
  if made.of_group is not null then
    select count(*) into running from chaos.claims where of_group = made.of_group and ended_in is null;
    most := chaos.most_at_once(made.of_group, case when in_queue is null then rules.name end, shown, made.follows);
    if running > most then
      insert into chaos.faults
        values ('no more at once', format('job %s is number %s of %s, and %s may', job, running, made.of_group, most));
    end if;
  end if;
  if made.of_limit is not null then
    -- A claim that was made at the same time, and knows no total, counts for later claims.
    select count(*) into running from chaos.claims
      where of_limit = made.of_limit and ended_in is null and (total is not null or pg_visible_in_snapshot(made_in, shown));
    most := case when made.follows then chaos.most_since('total limit ' || rules.name, shown, 32768) else made.total end;
    if running > most then
      insert into chaos.faults
        values ('no more in total', format('job %s is number %s of limit %s, and %s may', job, running, made.of_limit, most));
    end if;
  end if;
end
$$;

-- Record the end of a claim.
create function chaos.note_end(job bigint, by_worker int, by_token bigint) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
begin
  update chaos.claims set ended_in = pg_current_xact_id()
    where job_id = job and worker = by_worker and token = by_token and ended_in is null;
  if not found then
    insert into chaos.faults values ('an end has a claim', format('job %s of worker %s', job, by_worker));
  end if;
end
$$;

-- Keep the snapshot of the statement that fires a trigger: a stable function reads in it, others in a newer one. With
-- it, for each claim in a queue, the first due job of the queue that comes before it and waits in this snapshot.
create function chaos.keep_job() returns trigger
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
begin
  perform set_config('chaos.snapshot', pg_current_snapshot()::text, true);
  perform set_config('chaos.overtaken', array[
    chaos.overtaken_by(new.id, new.task_id, new.partition, new.queue, new.priority, new.run_at, new.locked_at)]::text, true);
  return null;
end
$$;

create function chaos.keep_batch() returns trigger
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
begin
  perform set_config('chaos.snapshot', pg_current_snapshot()::text, true);
  perform set_config('chaos.overtaken', array(
    select chaos.overtaken_by(job.id, job.task_id, job.partition, job.queue, job.priority, job.run_at, new.locked_at)
    from unnest(new.ids, new.task_id, new.partition, new.queue, new.priority, new.run_at)
      with ordinality as job(id, task_id, partition, queue, priority, run_at, ordinal)
    order by ordinal)::text, true);
  return null;
end
$$;

-- One of the same task and priority, or one of another task that a wakeup names. A fetch passes by the jobs of tasks
-- that have a total, and by those that nothing woke: an end does not see a job that is added at the same moment.
create function chaos.overtaken_by(
  job bigint, of_task int, in_partition bigint, in_queue text, with_priority smallint, due timestamptz, at timestamptz)
  returns bigint
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
begin
  if in_queue is null then
    return null;
  end if;
  return (
    select other.id from asyncq._jobs as other
    where other.partition = in_partition and asyncq._is_ready(other) and other.run_at <= at
      and (other.priority, other.run_at, other.id) < (with_priority, due, job)
      and ((other.task_id, other.priority) = (of_task, with_priority)
        or chaos.is_free(of_task) and chaos.is_free(other.task_id) and exists (
          select from asyncq._wakeups as wakeup
          where wakeup.partition = in_partition and wakeup.task_id = other.task_id
            and wakeup.priority = other.priority and wakeup.at <= overtaken_by.at))
    order by other.priority, other.run_at, other.id limit 1);
end
$$;

-- Whether a task is not paused and has no limit, in the snapshot of the caller.
create function chaos.is_free(of_task int) returns boolean
  language sql stable
  as $$
  select task.paused_at is null and not exists (select from chaos.limited where limited.task = task.identifier)
  from asyncq._tasks as task where task.id = of_task
  $$;

create function chaos.note_job() returns trigger
  language plpgsql volatile
  as $$
begin
  if tg_op in ('UPDATE', 'DELETE') then
    if old.locked_by is not null
      and (tg_op = 'DELETE' or (old.locked_by, old.lock_token) is distinct from (new.locked_by, new.lock_token))
    then
      perform chaos.note_end(old.id, old.locked_by, old.lock_token);
    end if;
  end if;
  if tg_op in ('UPDATE', 'INSERT') then
    if new.locked_by is not null
      and (tg_op = 'INSERT' or (old.locked_by, old.lock_token) is distinct from (new.locked_by, new.lock_token))
    then
      perform chaos.note_claim(
        new.id, new.locked_by, new.lock_token, new.task_id, new.queue, new.payload, new.locked_at,
        (pg_catalog.current_setting('chaos.overtaken')::bigint[])[1]);
    end if;
  end if;
  return null;
end
$$;

create function chaos.note_batch() returns trigger
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  was record;
begin
  if tg_op in ('UPDATE', 'DELETE') then
    for was in
      select id from unnest(old.ids) with ordinality as job(id, ordinal) where get_bit(old.unsettled, ordinal::int - 1) = 1
    loop
      if tg_op = 'UPDATE' then
        continue when get_bit(new.unsettled, array_position(new.ids, was.id) - 1) = 1;
      else
        -- A split makes it a row.
        continue when exists (
          select from asyncq._jobs where id = was.id and locked_by = old.locked_by and lock_token = old.lock_token);
      end if;
      perform chaos.note_end(was.id, old.locked_by, old.lock_token);
    end loop;
  end if;
  if tg_op in ('UPDATE', 'INSERT') then
    perform chaos.note_claim(
      job.id, new.locked_by, new.lock_token, job.task_id, job.queue, job.payload, new.locked_at,
      (current_setting('chaos.overtaken')::bigint[])[ordinal])
      from unnest(new.ids, new.task_id, new.queue, new.payload)
        with ordinality as job(id, task_id, queue, payload, ordinal)
      where get_bit(new.unsettled, ordinal::int - 1) = 1
        and (tg_op = 'INSERT' or job.id <> all(old.ids));
  end if;
  return null;
end
$$;

-- Triggers of one event fire in the order of their names.
create trigger chaos_1 after insert or update on asyncq._jobs for each row
  when (new.locked_by is not null) execute function chaos.keep_job();
create trigger chaos_2 after insert or update or delete on asyncq._jobs for each row execute function chaos.note_job();
create trigger chaos_1 after insert or update on asyncq._batches for each row execute function chaos.keep_batch();
create trigger chaos_2 after insert or update or delete on asyncq._batches for each row execute function chaos.note_batch();

-- The jobs of trees that did not end as they had to. All that they wait for is kept, so each end is known.
create view chaos.wrong_ends as
select due.waiter, due.state as expected, ended.state
from (
  select edge.waiter, case
      when bool_or(edge.runs_anyhow) or bool_and(coalesce(awaited.state, 'unknown') = 'completed') then 'completed'
      else 'cancelled' end as state
  from chaos.edges as edge left join asyncq._ended_jobs as awaited on awaited.id = edge.job_id
  group by edge.waiter) as due
left join asyncq._ended_jobs as ended on ended.id = due.waiter
where ended.state is distinct from due.state
union all
select ended.id, case ended.state when 'completed' then 'run once' else 'never run' end,
  format('run %s times, %s effects missed', ran.times, ran.missing)
from asyncq._ended_jobs as ended
join asyncq._tasks as task on task.id = ended.task_id and task.identifier = 'join'
cross join lateral (
  select count(*) as times, coalesce(sum(joined.missing), 0) as missing from chaos.joined
  where joined.number = (ended.payload ->> 'number')::int) as ran
where ran.times <> (ended.state = 'completed')::int or ran.missing <> 0;

-- Starts beyond a rate: with those before it in one time of the rate, in the order of the locks. While the schema's
-- clock is moved, a fetch that began before may follow one that began after: such starts are left out.
create view chaos.over_rate as
with starts as (
  select seq, of_group as counted, claimed_at, ahead, rate as count, per_s from chaos.claims
  where rate is not null and of_group is not null
  union all
  select seq, 'limit ' || of_limit, claimed_at, ahead, total_rate, total_per_s from chaos.claims where total_rate is not null),
ordered as (
  select *, ahead < max(ahead) over (partition by counted order by seq) - interval '1 s' as is_late from starts)
select one.counted, one.seq, one.claimed_at, one.count, (
    select count(*) from ordered as before
    where before.counted = one.counted and before.seq <= one.seq and not before.is_late
      and before.claimed_at > one.claimed_at - pg_catalog.make_interval(secs => one.per_s)) as started
from ordered as one
where not one.is_late and one.count < (
    select count(*) from ordered as before
    where before.counted = one.counted and before.seq <= one.seq and not before.is_late
      and before.claimed_at > one.claimed_at - pg_catalog.make_interval(secs => one.per_s));
