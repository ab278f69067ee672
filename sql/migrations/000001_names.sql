-- Names, stored once: tasks (what to run) and queues (what runs in series).

create table asyncq._tasks (
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
