-- The job of an earlier request with this idempotency key, and its state: completed if nothing is known of it any more.
-- No row if there was no such request, or its window is over. It probes the key once under every plan: no other
-- condition fits an index, and offset 0 prevents a join.
create or replace function asyncq._request(key text, moment timestamptz) returns table (id bigint, state text)
  language sql stable
  as $$
  select request.job_id, coalesce(
    (select asyncq._state(job) from asyncq._jobs as job where job.id = request.job_id),
    (select ended.state from asyncq._ended_jobs as ended where ended.id = request.job_id),
    'completed')
  from asyncq._requests as request
  where request.key = _request.key and coalesce(request.keep_until, 'infinity') > moment
  offset 0
  $$;

-- Refuse a request whose idempotency key belongs to another request: an earlier one, or one of this call. The keys are
-- locked. The error gives the position of the first such job, and not its key, which may be a secret.
create or replace function asyncq._check_requests(jobs asyncq._new_job[]) returns void
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
      select job.ordinality as ord, job.idempotency_key as key, asyncq._digest(job.identifier, job.payload) as digest
      from unnest(jobs) with ordinality as job
      where job.idempotency_key is not null) as asked) as given
  left join lateral (
    select request.digest from asyncq._requests as request
    where request.key = given.key and coalesce(request.keep_until, 'infinity') > moment offset 0) as before on true
  where given.digest <> coalesce(before.digest, given.first_digest)
  order by given.ord limit 1;
  if found then
    raise exception using errcode = 'GWBIK', column = 'idempotency_key',
      message = 'idempotency_key was used before for another task or payload: a new request needs a new key',
      detail = 'Job ' || bad || ' of ' || cardinality(jobs) || '.';
  end if;
end
$$;

-- Store the jobs of requests with idempotency keys. outcomes and ids are those of the adds of jobs, in their order. The
-- keys are locked. So is a job that existed before and has a row; it is kept for as long as the request. A rejected
-- request is not stored. One that is stored already stays as it is, with its time.
create or replace function asyncq._store_requests(jobs asyncq._new_job[], outcomes text[], ids bigint[]) returns void
  language plpgsql volatile
  as $$
declare
  moment constant timestamptz := asyncq.clock();
  kept_ids bigint[];
  kept_untils timestamptz[];
begin
  with stored as (
    insert into asyncq._requests as request (keep_until, job_id, key, digest)
      select moment + make_interval(secs => job.window_s), ids[job.ordinality], job.idempotency_key,
        asyncq._digest(job.identifier, job.payload)
      from unnest(jobs) with ordinality as job
      where job.idempotency_key is not null and outcomes[job.ordinality] <> 'rejected'
      order by job.idempotency_key
      on conflict (key) do update
        set keep_until = excluded.keep_until, job_id = excluded.job_id, digest = excluded.digest
        where request.keep_until <= moment
      returning request.job_id, request.keep_until)
  select array_agg(stored.job_id), array_agg(stored.keep_until) into kept_ids, kept_untils from stored;
  -- A job that was added now is kept from the start.
  if 'updated' = any(outcomes) or 'deduplicated' = any(outcomes) then
    update asyncq._jobs as job
      set keep_until = greatest(job.keep_until, given.keep_until), keep_states = '{completed,cancelled,discarded}'
      from unnest(kept_ids, kept_untils) as given(id, keep_until)
      where job.id = any(array[given.id]);
    update asyncq._ended_jobs as ended set keep_until = greatest(ended.keep_until, given.keep_until)
      from unnest(kept_ids, kept_untils) as given(id, keep_until)
      where ended.id = any(array[given.id]);
  end if;
end
$$;

-- The SHA-256 of a request's task and payload. In jsonb payloads are equal that differ in blanks or in the order of
-- their members. A payload that jsonb cannot hold counts as it is written.
create or replace function asyncq._digest(identifier text, payload json) returns bytea
  language plpgsql immutable
  as $$
begin
  return sha256(convert_to(to_json(identifier) || coalesce(payload, '{}')::jsonb::text, 'UTF8'));
exception when data_exception then
  return sha256(convert_to(to_json(identifier) || payload::text, 'UTF8'));
end
$$;
