-- Whether a batch has room for a payload. A batch is written as a whole, so a large payload, which lies beside its row, stays there.

create or replace function asyncq._fits_batch(payload json) returns boolean
  language sql stable parallel safe
  as $$ select pg_catalog.pg_column_size(payload) <= 1000 and pg_catalog.pg_column_compression(payload) is null $$;
