-- The shop's own tables. Its migration tool would hold them; here the service runs this file when it starts.

create table if not exists items (
  name text primary key,
  stock int not null constraint items_in_stock check (stock >= 0)
);

create table if not exists orders (
  id bigint generated always as identity primary key,
  item text not null references items (name),
  email text not null
);

-- What was mailed: in real life the mail service's own list.
create table if not exists mails (
  job_id bigint not null,
  order_id bigint not null,
  recipient text not null
);

insert into items (name, stock) values ('teapot', 1000), ('unicorn', 0) on conflict do nothing;
