-- change_matching(filter text, act text, up_to_id bigint, most int, after_id bigint, options text) -> changed bigint[], next_id bigint
select changed, next_id from asyncq.change_matching($1::text::jsonb, $2::text, $3::bigint, $4::int, $5::bigint, $6::text::jsonb)
