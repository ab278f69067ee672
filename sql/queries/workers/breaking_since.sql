-- breaking_since(known int) -> name text, release text
-- The newest migration that breaks releases that know only the migrations up to known, and the first release that it
-- does not break. Old releases ask this of newer schemas for ever: _migrations keeps these columns.
select migration.name, migration.release
from asyncq._migrations as migration
where migration.needs > $1
order by migration.needs desc, migration.id desc
limit 1
