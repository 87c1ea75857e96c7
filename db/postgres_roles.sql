-- SPDX-License-Identifier: Apache-2.0
-- Roles for a tuning database that a team shares. Run it once as the owner of the database, after
-- the first `tilewright tune` or `tilewright db upgrade` has made the tables, and again after an
-- upgrade that adds tables; then grant the roles to people and machines:
--
--   psql -f postgres_roles.sql schedules
--
-- The file ends at the first error and changes nothing then. It needs the right CREATEROLE, which a superuser
-- gives by ALTER ROLE name CREATEROLE, and the owner of the tables, who alone may grant on them.
--
--   psql -c 'CREATE ROLE alice LOGIN; GRANT tilewright_recorder TO alice' schedules
--
--   tilewright_reader    looks records up and exports them
--   tilewright_recorder  also tunes: adds facts, and can neither change nor delete one
--   tilewright_curator   also deletes: what is quarantined, and records that should go

\set ON_ERROR_STOP on
BEGIN;

DO $$
DECLARE
  role text;
  owner oid := (SELECT c.relowner FROM pg_catalog.pg_class c
                JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'tilewright' AND c.relname = 'trials');
BEGIN
  IF owner IS NULL THEN
    RAISE EXCEPTION 'this database has no tables of tilewright yet'
      USING HINT = 'run `tilewright db upgrade` or a first `tilewright tune` with its address, then this file again';
  END IF;
  IF NOT pg_catalog.pg_has_role(owner, 'USAGE') THEN
    RAISE EXCEPTION '% does not own the tables of tilewright', current_user
      USING HINT = 'run this file as the owner, who made them';
  END IF;
  IF NOT (SELECT rolcreaterole OR rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
    RAISE EXCEPTION '% lacks the right CREATEROLE', current_user
      USING HINT = format('as a superuser: ALTER ROLE %I CREATEROLE; then run this file again', current_user);
  END IF;
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
-- These tables are derived from the trials.
GRANT INSERT, UPDATE, DELETE ON tilewright.best, tilewright.groups, tilewright.sessions,
  tilewright.peaks, tilewright.shared, tilewright.statuses TO tilewright_recorder;
-- What runs tell each other: kernels that are wanted, and trials under way.
GRANT INSERT, UPDATE, DELETE ON tilewright.demands, tilewright.wanted, tilewright.claims
  TO tilewright_recorder;

GRANT tilewright_recorder TO tilewright_curator;
GRANT DELETE ON tilewright.trials, tilewright.calibrations, tilewright.quarantine
  TO tilewright_curator;

COMMIT;
