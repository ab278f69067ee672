-- stored_items(tasks text[], identifiers text[]) -> identifier text, revision bigint, definition text
-- The stored recurring items of these tasks, or of these names.
select identifier, revision, definition::text as definition
from asyncq._cron_items
where definition ->> 'task' = any($1::text[]) or identifier = any($2::text[]) order by identifier collate "C"
