-- declare_limits(declaration text, declared_by text) -> kind text, name text, before jsonb, after jsonb, was_by text
select kind, name, before, after, was_by from asyncq._declare_limits($1::text::json, $2)
