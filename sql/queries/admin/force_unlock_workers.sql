-- force_unlock_workers(worker_ids text[]) -> document text
select document from asyncq._force_unlock_workers($1::text[]) order by (shown).id
