-- go_on_call(was_mine bool) -> is_mine bool, adds_settled bool, is_mixed bool
select is_mine, adds_settled, coalesce(is_mixed, true) as is_mixed from asyncq._go_on_call($1)
