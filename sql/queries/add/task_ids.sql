-- task_ids(identifiers text[]) -> identifier text, id int
select identifier, id from asyncq._task_ids($1)
