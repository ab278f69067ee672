-- leave_lookout(was_out bool, tell_all bool) -> void
select asyncq._leave_lookout($1, $2)
