-- The names of tasks, stored once: a job has the number.

create table asyncq._tasks (
  id int generated always as identity constraint tasks_pkey primary key,
  identifier text not null
    constraint tasks_identifier_key unique
    constraint tasks_identifier_check check (length(identifier) <= 128)
);
