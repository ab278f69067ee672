-- Whether some job has, or will have in this call, a job key and a key under a unique policy: then two jobs of the call
-- that share no key may meet in it. The keys are locked.

create or replace function asyncq._mixes_keys(job_keys text[], extras jsonb[]) returns boolean
  language plpgsql volatile
  as $$
begin
  return array_remove(job_keys, null) <> '{}' and (
    exists (
      select from unnest(job_keys, extras) as given(job_key, extra) where given.job_key is not null and given.extra ? 'key')
    or exists (select from asyncq._jobs as job where job.key = any(job_keys) and job.unique_key is not null));
end
$$;
