-- No table changes. New jobs are stored with fewer looks at the same thing; _insert_jobs answers with an array of ids.

drop function if exists asyncq._insert_jobs(
  text[], json[], text[], timestamptz[], int[], text[], int[], jsonb[], jsonb[], jsonb[], text[]);
