-- A worker that offers to take a job says of which tasks it takes one in a batch: the add that takes the offer then claims it as a
-- batch of one. Null: of none, as workers say that do not know of this.
alter table asyncq._offers add column packable_ids int[];
drop function if exists asyncq._make_offer(int, bigint, bigint, int[], text, boolean);
