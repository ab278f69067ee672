-- watch(ids text, channel text) -> document text
select document from asyncq._watch($1::text::bigint[], $2) as watched(document)
