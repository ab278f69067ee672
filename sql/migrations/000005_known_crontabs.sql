-- Recurring items: what is known of each, and those that are stored here instead of in a worker's crontab.

-- Since when an item is known, and which of its minutes was added last. Slots before not_before are never made up for: it was
-- paused until then, or another one. next_run is for those who look: what its workers told last.
create table asyncq.known_crontabs (
  identifier text collate "C" constraint known_crontabs_pkey primary key,
  known_since timestamptz not null,
  last_execution timestamptz,
  not_before timestamptz,
  paused_at timestamptz,
  next_run timestamptz
);

-- definition is as _check_cron_item says; revision is a hash of it: a slot is claimed under the revision that the worker read.
-- problem and job are what workers make of it: why it cannot be scheduled, and its job with the defaults of its task.
create table asyncq._cron_items (
  identifier text collate "C" constraint cron_items_pkey primary key,
  updated_at timestamptz not null,
  revision bigint not null,
  definition jsonb not null,
  problem text collate "C",
  job jsonb
);
