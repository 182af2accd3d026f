-- +goose Up

-- Refusals by a rule that counts more than one recipient share a row once there are many: how many recipients that row stands for,
-- estimated; 0: it is about the one recipient that it names (package verification, refusals.go). A constant default rewrites no row.
ALTER TABLE sends ADD COLUMN IF NOT EXISTS recipients integer NOT NULL DEFAULT 0;
