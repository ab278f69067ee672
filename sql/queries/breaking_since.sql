-- breaking_since(known int) -> name text, needs text
-- The last breaking migration that a release does not know, if there is one, and the oldest release that knows it. Old releases
-- ask this of newer schemas for ever: _migrations keeps these columns.
select migration.name, migration.needs
from asyncq._migrations as migration
where migration.id > $1 and migration.needs is not null
order by migration.id desc
limit 1
