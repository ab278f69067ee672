-- wake_workers() -> void
select asyncq._wake_workers()
