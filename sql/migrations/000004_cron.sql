-- Recurring items: the state of each, and the definitions of those that are stored here and not in a worker's crontab.

-- The state of an item, wherever it is defined.
--   known_since     when it was first seen
--   last_execution  the newest of its slots that was added
--   not_before      earlier slots are never added: the item was paused until then, or was another one
--   next_run        for readers: what its workers reported last
create table asyncq.known_crontabs (
  identifier text collate "C" constraint known_crontabs_pkey primary key,
  known_since timestamptz not null,
  last_execution timestamptz,
  not_before timestamptz,
  paused_at timestamptz,
  next_run timestamptz
);

-- Items that are stored.
--   revision    a hash of the definition: a slot is claimed under the revision that the worker read
--   definition  see _check_cron_item
--   problem     why workers cannot schedule it
--   job         its job, with the defaults of its task, as workers made it
create table asyncq._cron_items (
  identifier text collate "C" constraint cron_items_pkey primary key,
  updated_at timestamptz not null,
  revision bigint not null,
  definition jsonb not null,
  problem text collate "C",
  job jsonb
);

-- The result of functions about recurring items.
create type asyncq.cron_item as (
  identifier text, source text, task_identifier text, expression text, dialect text, tz text, payload json, options jsonb, overlap text,
  paused_at timestamptz, known_since timestamptz, last_run timestamptz, next_run timestamptz, problem text, workers text[]
);
