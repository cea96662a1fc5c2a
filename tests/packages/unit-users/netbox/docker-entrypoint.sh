#!/bin/bash
# What remains of netbox-docker's script without a database.
set -e
umask 002
source /opt/netbox/venv/bin/activate
exec "$@"
