-- +goose Up
-- A provider's event of a type that the configuration does not map is shown with its send.
ALTER TABLE provider_events DROP CONSTRAINT provider_events_kind_check;
ALTER TABLE provider_events ADD CONSTRAINT provider_events_kind_check
    CHECK (kind IN ('delivered', 'bounced', 'complained', 'opted_out', 'unmapped'));
