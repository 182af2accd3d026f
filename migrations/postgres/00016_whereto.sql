-- +goose NO TRANSACTION
-- +goose Up

-- Where a send went, as far as its mask tells it: the country of a phone number and how that begins. The domain of a mail
-- address is in the mask itself, and an index of its own finds it (package audit, list.go). One index more than before was too
-- many for what few ask: that on the kind takes the provider in. Built beside the traffic; what an interrupted build left behind
-- goes first.
ALTER TABLE sends ADD COLUMN IF NOT EXISTS country text NOT NULL DEFAULT '';
ALTER TABLE sends ADD COLUMN IF NOT EXISTS prefix text NOT NULL DEFAULT '';
DROP INDEX CONCURRENTLY IF EXISTS sends_country;
CREATE INDEX CONCURRENTLY sends_country ON sends (country, logged_at, id) WHERE country <> '';
DROP INDEX CONCURRENTLY IF EXISTS sends_domain;
CREATE INDEX CONCURRENTLY sends_domain ON sends ((split_part(masked, '@', 2) COLLATE "C"), logged_at, id)
    WHERE split_part(masked, '@', 2) COLLATE "C" <> '';
DROP INDEX CONCURRENTLY IF EXISTS sends_sort;
CREATE INDEX CONCURRENTLY sends_sort ON sends (((app || E'\x1f' || channel || E'\x1f' || purpose || E'\x1f' || provider) COLLATE "C"), logged_at, id);
DROP INDEX CONCURRENTLY IF EXISTS sends_kind;
