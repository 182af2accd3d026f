-- +goose Up
-- SQLite counts hours ahead as well: sqlite/00007_hours.sql adds the tables that Postgres has since migration 1.
SELECT 1;
