-- The names of tasks, stored once: a job has the number.
-- A task is retired when cleanup found nothing that uses it, in retired_in; the next one that finds it so removes it. Who looks
-- a retired name up to use it takes the mark away.

create table asyncq._tasks (
  retired_in xid8,
  id int generated always as identity constraint tasks_pkey primary key,
  identifier text collate "C" not null
    constraint tasks_identifier_key unique
    constraint tasks_identifier_check check (length(identifier) <= 128)
);
