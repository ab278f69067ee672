-- Names, stored once: tasks (what to run) and queues (what runs in series).
-- A task is retired when cleanup found nothing that uses it, in retired_in; the next one that finds it so removes it. Who looks
-- a retired name up to use it takes the mark away.

create table asyncq._tasks (
  retired_in xid8,
  id int generated always as identity constraint tasks_pkey primary key,
  identifier text not null
    constraint tasks_identifier_key unique
    constraint tasks_identifier_check check (length(identifier) <= 128)
);

-- A queue's row is inserted when its name is first used, and then written only when one of its jobs starts or ends.
create table asyncq._queues (
  id bigint generated always as identity constraint queues_pkey primary key,
  lock_token bigint,
  locked_by int,
  name text not null
    constraint queues_name_key unique
    constraint queues_name_check check (length(name) <= 128),
  constraint queues_lock_check check ((locked_by is null) = (lock_token is null))
);
