-- Whether ended jobs or requests that are kept count for these jobs: one has an idempotency key, or a policy that looks at ended jobs,
-- of which one has the key. The keys are locked.

create or replace function asyncq._looks_back(extras jsonb[]) returns boolean
  language plpgsql volatile
  as $$
declare
  asks boolean;
  watched bytea[];
begin
  select bool_or(given ? 'request'),
      array_agg(decode(given ->> 'key', 'hex')) filter (where given -> 'states' ?| '{completed,cancelled,discarded}')
    into asks, watched
    from unnest(extras) as given;
  return asks or watched is not null and exists (
    select from asyncq._ended_jobs as ended where ended.unique_key = any(watched));
end
$$;
