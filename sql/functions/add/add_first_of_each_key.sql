-- Add jobs that all ask alike (_all_ask_alike): the first one of each key is added, or is barred; it answers the others.

create or replace function asyncq._add_first_of_each_key(
  identifiers text[], payloads json[], queue_names text[], run_ats timestamptz[], max_attempts int[], priorities int[],
  flags jsonb[], metas jsonb[], extras jsonb[])
  returns table (ord bigint, outcome text, id bigint, existing_id bigint, existing_state text)
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  -- Of each job: whether it is the first one of its key (or has none), the place of that one among the first ones, and what it
  -- comes to if it is not.
  firsts boolean[];
  places bigint[];
  refusals text[];
  -- Of each first one.
  outcomes text[];
  ids bigint[];
  existing_ids bigint[];
  existing_states text[];
begin
  select array_agg(given.ord = given.first order by given.ord), array_agg(given.place order by given.ord),
      array_agg(case given.strategy when 'reject' then 'rejected' else 'deduplicated' end order by given.ord)
    into firsts, places, refusals
    from (
      select spec.ord, spec.first, spec.strategy, dense_rank() over (order by spec.first) as place
      from (
        select keyed.ord, keyed.extra ->> 'on_conflict' as strategy, case
            when keyed.extra is null then keyed.ord
            else first_value(keyed.ord) over (partition by keyed.extra ->> 'key' order by keyed.ord)
          end as first
        from unnest(extras) with ordinality as keyed(extra, ord)) as spec) as given;
  select array_agg(given.identifier order by given.ord), array_agg(given.payload order by given.ord),
      array_agg(given.queue_name order by given.ord), array_agg(given.run_at order by given.ord),
      array_agg(given.max_attempts order by given.ord), array_agg(given.priority order by given.ord),
      array_agg(given.flags order by given.ord), array_agg(given.meta order by given.ord),
      array_agg(given.extra order by given.ord)
    into identifiers, payloads, queue_names, run_ats, max_attempts, priorities, flags, metas, extras
    from unnest(identifiers, payloads, queue_names, run_ats, max_attempts, priorities, flags, metas, extras, firsts)
      with ordinality as given(
        identifier, payload, queue_name, run_at, max_attempts, priority, flags, meta, extra, is_first, ord)
    where given.is_first;
  select array_agg(done.outcome order by done.ord), array_agg(done.id order by done.ord),
      array_agg(done.existing_id order by done.ord), array_agg(done.existing_state order by done.ord)
    into outcomes, ids, existing_ids, existing_states
    from asyncq._resolve_unique(
      identifiers, payloads, queue_names, run_ats, max_attempts, null, priorities, flags, null, metas, extras) as done;
  return query
    select answer.ord, case when answer.is_first then outcomes[answer.place] else answer.refusal end,
      ids[answer.place],
      case when answer.is_first then existing_ids[answer.place] else ids[answer.place] end,
      case
        when answer.is_first or outcomes[answer.place] <> 'added' then existing_states[answer.place]
        when run_ats[answer.place] > asyncq.now() then 'scheduled'
        else 'available'
      end
    from unnest(firsts, places, refusals) with ordinality as answer(is_first, place, refusal, ord);
end
$$;
