# shellcheck shell=sh disable=SC3028,SC3045 # what a shell does not know it says nothing of
# Tells what a login is like here, before any start file of a login shell: name, `=`, value, NUL.
say() { printf '%s=%s\0' "$1" "$2"; }
say now "${EPOCHREALTIME:-$(date +%s)}"
say shell "${SHELL-}"
say home "${HOME-}"
say state "${XDG_STATE_HOME-}"
say system "$(uname -srm 2>/dev/null)"
say sh "$(readlink -f "$(command -v sh)" 2>/dev/null)"
say files "$(ulimit -n 2>/dev/null)"
say files_most "$(ulimit -H -n 2>/dev/null)"
say processes "$(ulimit -u 2>/dev/null || ulimit -p 2>/dev/null)"
