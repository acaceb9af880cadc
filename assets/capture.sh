# shellcheck shell=bash disable=SC2317  # sections are put together elsewhere
# Captures the login environment: sections for a shell that was started with what a login gives, before any start file.
# What is wanted stands in records with a nonce, so that whatever start files print does no harm.
#   @NONCE@  16 hex digits     @COOKIE@  cookie     @DUMP@ q  the text that dumps a bash      @ASK@ q  one that any shell runs

#=== BASE
# The options of a plain shell, as every command's shell has them at its start; and what the login gave.
printf '\036S@NONCE@\0%s\0\036S@NONCE@\0%s\0\036D@NONCE@\0%s\0' "$SHELLOPTS" "$BASHOPTS" "${SHELL-}"
export @COOKIE@

#=== BASH
# One login bash gives everything. An empty argv[0] would be no login shell.
( exec -a -bash @PROGRAM@ -c @DUMP@ ) </dev/null 2>/dev/null

#=== PLAIN
# No start file at all.
builtin eval @DUMP@

#=== OTHER
# Any other shell gives its environment.
( exec -a "-${SHELL##*/}" "$SHELL" -c @ASK@ ) </dev/null 2>/dev/null

#=== DUMP
# Runs inside the login shell, where anything may be shadowed.
__qd_o=$SHELLOPTS __qd_b=$BASHOPTS POSIXLY_CORRECT=y; \unset -f builtin; \unset -v POSIXLY_CORRECT
\builtin shopt -u expand_aliases
builtin set +euxv
builtin printf '\036S@NONCE@\0%s\0\036S@NONCE@\0%s\0\036F@NONCE@\0' "$__qd_o" "$__qd_b"
@FUNCTIONS@
builtin printf '\0\036V@NONCE@\0'
{ @VARIABLES@; }
builtin printf '\0'

#=== ASK
printf '\036W@NONCE@'; env -0 2>/dev/null || cat /proc/self/environ; printf '\036W@NONCE@'
