-- +goose Up
-- +goose StatementBegin

-- A publication of all tables, for a copy of the database in a warehouse or on another server, takes no DELETE from a table whose
-- rows have no identity. Every other table has its primary key.
ALTER TABLE write_probe REPLICA IDENTITY FULL;
-- +goose StatementEnd
