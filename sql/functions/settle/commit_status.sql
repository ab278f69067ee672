-- What became of a transaction that was to complete a job, and of which no answer to its COMMIT came.
--
--   the server's word           the claim stands          the claim is gone
--   in progress                 in progress               in progress
--   committed                   unknown: see below        committed
--   aborted                     aborted                   lost
--   none                        unknown                   lost
--
-- The server has no word for a number that is too old, or is none of its own. A claim that stands although the server says
-- committed was completed inside a savepoint that was rolled back, or this is another server, with a past of its own. The claim
-- decides: where it stands, the job has to be settled; where it is gone, somebody has done that.

create or replace function asyncq._commit_status(worker int, job bigint, token bigint, xid text) returns text
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  as $$
declare
  word text;
  stands boolean;
begin
  if pg_is_in_recovery() then
    raise exception using errcode = '25006', message = 'a standby cannot tell what became of a transaction';
  end if;
  begin
    word := pg_xact_status(xid::xid8);
  exception when invalid_parameter_value then
    word := null;
  end;
  if word = 'in progress' then
    return word;
  end if;
  -- After the word, with a snapshot of its own.
  stands := exists (
    select from asyncq._jobs as held where held.id = job and held.locked_by = worker and held.lock_token = token);
  return case
    when stands and word = 'aborted' then 'aborted'
    when stands then 'unknown'
    when word = 'committed' then 'committed'
    else 'lost'
  end;
end
$$;
