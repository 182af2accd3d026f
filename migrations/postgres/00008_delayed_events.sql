-- +goose Up
-- A mail server's report that it goes on trying is shown with its send.
ALTER TABLE provider_events DROP CONSTRAINT provider_events_kind_check;
ALTER TABLE provider_events ADD CONSTRAINT provider_events_kind_check
    CHECK (kind IN ('delivered', 'bounced', 'complained', 'opted_out', 'unmapped', 'delayed'));
