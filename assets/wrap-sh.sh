# shellcheck shell=sh
# shellcheck disable=SC1001,SC1012  # the backslash only keeps the user's aliases away
# shellcheck disable=SC2093,SC2154,SC2317  # an exec that only redirects; sections are put together elsewhere
# shellcheck disable=SC2015,SC3021  # both arms are meant; the place is a number
# What dash and busybox ash run around one command: one script, sent to the shell that the reader started. Places as in wrap.sh.
# It keeps variables, readonly, aliases, umask, the directory and the options -a, -C, -f. No functions: these shells cannot show
# them. Descriptors 8 and 9, the highest that they allow. Words are quoted (\set) from where the user's aliases exist.

#=== SCRIPT
# `command` makes an error with a read-only variable one that does not end the shell.
exec 8>&1 9>&2 2>/dev/null
unset -v __qdr_p IFS OLDPWD
@CHECK@
umask 077
: >|@N@.v; : >|@N@.t
unset -v PATH
@SOURCEV@
@DIRECTORY@
@OLDPWD@
@EXPORTS@
@GIVENS@
@DEFAULTS@
\trap @FINISH@ EXIT
\exec @STDIN@ 2>&@ERR@
@OPTIONS@
\eval @COMMAND@ 8>&- 9>&-; { __qd_r=$? __qd_o=$- __qd_k=9; \trap >|@N@.t; \command \read -r __qd_t <@N@.t || :; case $__qd_t in "trap -- '{ __qd_r="*) \set +euxv;; *) ( \eval @FINISH@ ) || :;; esac; \unset -v __qd_t; \exit "$__qd_r"; } >/dev/null 2>&1

#=== CHECK
[ -r @V@ ] || { printf '\036X@NONCE@\000nosnap\000' >&9; exit 97; }

#=== GIVEN
# A variable for this command alone: where the session has it read-only nothing runs.
\command \export @GIVEN@ || { \printf '\036X@NONCE@\000readonly @NAME@\000' >&9; \exit 97; }

#=== HERE
\cd -L -- @DIR@ || { \set -- @DIR@; until \cd -L -- "$1"; do \set -- "${1%/*}"; [ "$1" ] || \set -- /; done; \printf '\036D@NONCE@\000%s\000' "$PWD" >&9; \set --; }

#=== THERE
\cd -L -- @DIR@ || { \set -- @DIR@ 'no such directory'; [ -e "$1" ] && \set -- "$1" 'not a directory'; [ -d "$1" ] && \set -- "$1" 'permission denied'; \printf 'qd: %s: %s\n' "$1" "$2" >&@ERRFD@; \printf '\036W@NONCE@\000%s\000' "$2" >&9; \exit 126; }
\printf '\036S@NONCE@\000%s\000' "$PWD" >&9

#=== FINISH
# The dump is five lists, each after a line with the nonce.
{ __qd_r=${__qd_r-$?} __qd_o=${__qd_o-$-}; \set +euxv; \trap '' HUP INT QUIT TERM PIPE XFSZ; } >/dev/null 2>&1
{
\set -- "$__qd_r" "$PWD" "${OLDPWD-}" "${__qd_k-}" "${!-}" "$__qd_o"
\unset -v __qd_r __qd_o __qd_k __qd_t
@TRANSIENT@
@KEEP@
# After an exit inside eval its redirections are not undone, and 8 and 9 may be the user's: then the record goes to a file.
if [ "$4" ]; then \command \printf '\036E@NONCE@\000%s\000%s\000%s\000%s\000\000%s\0000\000%s\000' "$1" "$2" "$3" "$6" "$5" "$7" >&9; \command \printf '\036@NONCE@' >&8
else \command \umask 077; \command \printf '\036E@NONCE@\000%s\000%s\000%s\000%s\000\000%s\0000\000%s\000' "$1" "$2" "$3" "$6" "$5" "$7" >|@N@.r; fi
} 2>/dev/null

#=== KEEP
{ @DUMP@; } >>@N@.v && \set -- "$@" ok || \set -- "$@" full

#=== CARRY
# Nothing is writable here: the state comes back as records.
{ \command \printf '\036F@NONCE@\000\000\036V@NONCE@\000' && @DUMP@ && \command \printf '\000'; } >&9 && \set -- "$@" ok || \set -- "$@" full

#=== DUMP
\command \printf '#@NONCE@\n' && \export -p && \command \printf '#@NONCE@\n' && \set && \command \printf '#@NONCE@\n' && \readonly -p && \command \printf '#@NONCE@\n' && \command \alias; \command \printf '#@NONCE@\n' && \command \umask

#=== CAPTURE
# Asks the account's shell for its environment.
printf '\036S@NONCE@\000%s\000\036S@NONCE@\000%s\000\036D@NONCE@\000%s\000' "" "$(umask)" "${SHELL-}"
export @COOKIE@
@WHO@
exit 0
