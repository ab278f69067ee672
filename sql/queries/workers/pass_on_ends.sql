-- pass_on_ends() -> partitions int, gates int
select asyncq._pass_on_ends() as partitions, asyncq._settle_gates() as gates
