-- take_lookout(was_out bool) -> is_out bool, is_quiet bool, is_mixed bool
select is_out, is_quiet, coalesce(is_mixed, true) as is_mixed from asyncq._take_lookout($1)
