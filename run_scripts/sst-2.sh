#!/usr/bin/env bash
exec bash "$(dirname "${BASH_SOURCE[0]}")/task.sh" SST-2 "$@"
