-- count_matching(filter text, up_to_id bigint, after_id bigint, most int) -> up_to_id bigint, states text, next_id bigint
select up_to_id, states::text as states, next_id from asyncq.count_matching($1::text::jsonb, $2::bigint, $3::bigint, $4::int)
