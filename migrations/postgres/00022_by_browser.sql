-- +goose Up

-- Which kind of caller opened a verification. Failed checks of a recipient are bounded for each kind apart, so that wrong codes of
-- browsers lock out no back end. Of a verification that was opened before, the kind is not known; it counts as a back end's. The
-- column is a constant until then, so the table is not rewritten.
ALTER TABLE verifications ADD COLUMN by_browser boolean NOT NULL DEFAULT false;
