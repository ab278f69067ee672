-- register_crontabs(identifiers text[], stored text[]) -> identifier text, known_since timestamptz, last_execution timestamptz, not_before timestamptz
select identifier, known_since, last_execution, not_before from asyncq._register_crontabs($1::text[], $2::text[])
