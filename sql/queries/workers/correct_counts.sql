-- correct_counts() -> name text, key text, counted int, running int
select coalesce(held.name, partition.key) as name, case when held.name is not null then partition.key end as key,
  corrected.counted, corrected.running
from asyncq._correct_counts() as corrected
left join asyncq._partitions as partition on partition.id = corrected.id
left join asyncq._limits as held on held.id = (corrected.id >> 48)::smallint
