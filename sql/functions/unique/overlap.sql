-- What the job of a recurring item asks about the other jobs of the item, as _add_jobs takes it; null for nothing.
-- asyncq/domain/cron/overlap.py has the same rule.

create or replace function asyncq._overlap(item text, overlap text) returns jsonb
  language sql immutable
  as $$
  select jsonb_build_object(
    'key', encode(sha256(convert_to('cron ' || item, 'UTF8')), 'hex'),
    'on_conflict', case overlap when 'skip' then 'ignore' else overlap end)
  where overlap in ('skip', 'replace')
  $$;
