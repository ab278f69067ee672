-- Add the jobs of recurring items, each slot once, however many workers call this with the same crontab. Parallel arrays,
-- one element a slot; run_at is the slot, revisions are as in _addable_slots. Returns a row for each slot that this call was the
-- first to add; and for each item that could not be added one with the SQLSTATE and what was said: its slots are as if nobody
-- had come.
--
-- All items are tried in one go. Only if that fails each is tried by itself, so that a bad one never costs the others
-- their slots. The items are held all the while: two callers that do so cannot wait for each other.

create or replace function asyncq._add_slots(
  crontabs text[], slots timestamptz[], revisions bigint[], identifiers text[], payloads json[], queue_names text[],
  max_attempts int[], job_keys text[], priorities int[], flags jsonb[], job_key_modes text[], extras jsonb[])
  returns table (ord bigint, outcome text, id bigint, code text, said text)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  due bigint[];
  busy bigint[];
  ords bigint[];
  failure text;
  message text;
begin
  select found.due, found.busy into due, busy from asyncq._due_slots(crontabs, slots, revisions) as found;
  return query
    select one.ord, null::text, null::bigint, '55P03', 'somebody else holds the item: it is being paused or changed, or its slot added'
    from unnest(busy) as one(ord);
  if due = '{}' then
    return;
  end if;
  begin
    -- The rows are complete before the first one is passed on: a failure leaves none behind.
    return query
      select added.ord, added.outcome, added.id, null::text, null::text
      from asyncq._add_due_slots(
        due, crontabs, slots, identifiers, payloads, queue_names, max_attempts, job_keys, priorities, flags,
        job_key_modes, extras) as added;
    return;
  exception when others then
    -- Which item it is, the loop finds out, and says.
    null;
  end;
  for ords in
    select array_agg(one.ord order by one.ord) from unnest(due) as one(ord) group by crontabs[one.ord] order by min(one.ord)
  loop
    begin
      return query
        select added.ord, added.outcome, added.id, null::text, null::text
        from asyncq._add_due_slots(
          ords, crontabs, slots, identifiers, payloads, queue_names, max_attempts, job_keys, priorities, flags,
          job_key_modes, extras) as added;
    exception when others then
      get stacked diagnostics failure = returned_sqlstate, message = message_text;
      return query select ords[1], null::text, null::bigint, failure, message;
      if failure = '55P03' then
        -- Somebody holds a job that this item would change, and perhaps those of many. What is left waits no longer than it has to.
        perform set_config('lock_timeout', '50ms', true);
      end if;
    end;
  end loop;
end
$$;
