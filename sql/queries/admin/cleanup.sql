-- cleanup(tasks text[], task_identifiers_to_keep text[]) -> task text, removed bigint
select task, removed from asyncq.cleanup($1::text[], $2::text[])
