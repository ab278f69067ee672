-- stored_item(identifier text) -> definition text, revision bigint
select definition::text as definition, revision from asyncq._cron_items where identifier = $1::text
