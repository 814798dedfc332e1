#!/bin/sh
# Runs once, when PostgreSQL's data folder is empty: one role and one database each for Label Studio and Evenhand.
set -eu
psql --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname=postgres \
  --set=label_studio="$(cat "${SECRETS_DIR:-/secrets}/LABEL_STUDIO_DATABASE_PASSWORD")" \
  --set=evenhand="$(cat "${SECRETS_DIR:-/secrets}/EVENHAND_DATABASE_PASSWORD")" <<'SQL'
CREATE ROLE label_studio LOGIN PASSWORD :'label_studio';
CREATE DATABASE label_studio OWNER label_studio;
CREATE ROLE evenhand LOGIN PASSWORD :'evenhand';
CREATE DATABASE evenhand OWNER evenhand;
REVOKE CONNECT ON DATABASE label_studio FROM PUBLIC;
REVOKE CONNECT ON DATABASE evenhand FROM PUBLIC;
SQL
