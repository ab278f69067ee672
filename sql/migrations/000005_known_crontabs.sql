-- Which recurring items are known since when, and which of their minutes was added last.

create table asyncq.known_crontabs (
  identifier text constraint known_crontabs_pkey primary key,
  known_since timestamptz not null,
  last_execution timestamptz
);
