-- pass_on_ends() -> partitions int
select asyncq._pass_on_ends() as partitions
