-- oldest_due() -> seconds float8
select asyncq.oldest_due() as seconds
