-- Refuse a request whose idempotency key was given to another one: before, or earlier in this call. The keys are
-- locked. The first one that is wrong is named, its key is not: it may be a secret of the caller's.

create or replace function asyncq._check_requests(identifiers text[], payloads json[], extras jsonb[]) returns void
  language plpgsql volatile
  as $$
declare
  bad bigint;
  moment constant timestamptz := asyncq.clock();
begin
  select given.ord into bad
  from (
    select asked.ord, asked.key, asked.digest,
      first_value(asked.digest) over (partition by asked.key order by asked.ord) as first_digest
    from (
      select spec.ord, spec.extra ->> 'request' as key, asyncq._digest(spec.identifier, spec.payload) as digest
      from unnest(identifiers, payloads, extras) with ordinality as spec(identifier, payload, extra, ord)
      where spec.extra ? 'request') as asked) as given
  left join lateral (
    select request.digest from asyncq._requests as request
    where request.key = given.key and coalesce(request.keep_until, 'infinity') > moment offset 0) as before on true
  where given.digest <> coalesce(before.digest, given.first_digest)
  order by given.ord limit 1;
  if found then
    raise exception using errcode = 'GWBIK', column = 'idempotency_key',
      message = 'idempotency_key was used before for another task or payload: a new request needs a new key',
      detail = 'Job ' || bad || ' of ' || cardinality(extras) || '.';
  end if;
end
$$;
