-- leave_on_call(was_mine bool, notify_all bool) -> void
select asyncq._leave_on_call($1, $2)
