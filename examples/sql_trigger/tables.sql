-- Two tables whose changes start jobs. Everything here may be run again.

create table if not exists users (
  id bigint generated always as identity primary key,
  email text not null,
  welcomed_at timestamptz
);

create table if not exists documents (
  id bigint generated always as identity primary key,
  body text not null,
  words int
);

-- The plain form: a function for one trigger, which says all about its job.
create or replace function welcome_user() returns trigger
  language plpgsql
  as $$
begin
  perform asyncq.add_job('welcome_user', json_build_object('user_id', new.id), max_attempts := 5);
  return null;
end
$$;

create or replace trigger welcome_user
  after insert on users
  for each row execute function welcome_user();

-- The reusable form: one function for many tables. The trigger names the task and, if it likes, the queue: an argument
-- that it leaves out is null, and null is the default of everything that add_job takes.
create or replace function add_job_for_row() returns trigger
  language plpgsql
  as $$
begin
  perform asyncq.add_job(
    tg_argv[0],
    json_build_object('table', tg_table_name, 'op', lower(tg_op), 'id', new.id),
    queue_name := tg_argv[1]);
  return null;
end
$$;

-- `of body`, because the task writes `words`: an update that started its own job again would never end.
create or replace trigger count_words
  after insert or update of body on documents
  for each row execute function add_job_for_row('count_words', 'documents');
