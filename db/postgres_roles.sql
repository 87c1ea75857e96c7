-- SPDX-License-Identifier: Apache-2.0
-- Roles for a tuning database that a team shares. Run it once as the owner of the database, after
-- the first `tilewright tune` or `tilewright db upgrade` has made the tables, and again after an
-- upgrade that adds tables; then grant the roles to people and machines:
--
--   psql -f postgres_roles.sql schedules
--   psql -c 'CREATE ROLE alice LOGIN; GRANT tilewright_recorder TO alice' schedules
--
--   tilewright_reader    looks records up and exports them
--   tilewright_recorder  also tunes: adds facts, and can neither change nor delete one
--   tilewright_curator   also deletes: what is quarantined, and records that should go

DO $$
DECLARE
  role text;
BEGIN
  FOREACH role IN ARRAY ARRAY['tilewright_reader', 'tilewright_recorder', 'tilewright_curator'] LOOP
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = role) THEN
      EXECUTE format('CREATE ROLE %I NOLOGIN', role);
    END IF;
  END LOOP;
END
$$;

GRANT USAGE ON SCHEMA tilewright TO tilewright_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA tilewright TO tilewright_reader;

GRANT tilewright_reader TO tilewright_recorder;
GRANT INSERT ON tilewright.trials, tilewright.calibrations, tilewright.quarantine
  TO tilewright_recorder;
-- The table of best trials follows from the others.
GRANT INSERT, UPDATE, DELETE ON tilewright.best TO tilewright_recorder;

GRANT tilewright_recorder TO tilewright_curator;
GRANT DELETE ON tilewright.trials, tilewright.calibrations, tilewright.quarantine
  TO tilewright_curator;
