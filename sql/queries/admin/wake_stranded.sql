-- wake_stranded() -> partitions int
select asyncq._wake_stranded() as partitions
