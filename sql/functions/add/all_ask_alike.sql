-- Whether jobs that share a key under a unique policy can be added by _add_first_of_each_key: each is barred by the first one, or
-- by what bars that. So nothing in the call replaces, forces or reruns a job, or has a job key or an idempotency key; and the jobs
-- of a key look at the same states, for the same period, among them those in which a new job is. A document without a key shares
-- nothing with others like it. A condition that is null would not count, so it is false.

create or replace function asyncq._all_ask_alike(job_keys text[], extras jsonb[]) returns boolean
  language sql immutable
  as $$
  select coalesce(array_remove(job_keys, null) = '{}', true) and bool_and(coalesce(
    given.extra ? 'key'
    and not given.extra ?| '{request,rerun}'
    and given.extra ->> 'on_conflict' in ('ignore', 'reject')
    and given.extra -> 'states' ?& '{available,scheduled}'
    and coalesce(asyncq._period(given.extra ->> 'period') > '0', true)
    and given.extra -> 'states' = given.first -> 'states'
    and given.extra ->> 'period' is not distinct from given.first ->> 'period', false))
  from (
    select spec.extra, first_value(spec.extra) over (partition by spec.extra ->> 'key' order by spec.ord) as first
    from unnest(extras) with ordinality as spec(extra, ord)
    where spec.extra is not null) as given
  $$;
