# shellcheck shell=bash
# shellcheck disable=SC2034,SC2194  # places that are filled in look unused and constant
# shellcheck disable=SC2317  # sections are put together elsewhere: what follows an exit here is reached
# shellcheck disable=SC2015  # both arms are meant: the first cannot fail where it matters
# shellcheck disable=SC2093  # an exec that only redirects
# shellcheck disable=SC2154  # read by the reader's own read
# shellcheck disable=SC2064  # the text of the trap is made now
# What bash runs around one command: templates, sent over stdin to the shell that the reader started. One shell runs one command.
# Comment lines are dropped. @NAME@ is filled in; values marked q are single-quoted. Names that begin with __qd_ get a piece of
# the nonce, so that no command can have made them read-only; those of the reader begin with __qdr_.
#   @NONCE@  16 hex digits                      @N@ q  <session folder>/<id>: prefix of the files that this command leaves
#   @V@ q    variables to start from            @F@ q  functions and aliases to start from
#   @SOURCEV@, @SOURCEF@  `. FILE`, or the text itself where nothing is writable
# Two stages. FIRST and RUN can be sent long before the command (the shell then waits, with the snapshot loaded); ENTER and
# the command come with it. While nothing of the user's is loaded plain names are safe; afterwards only `builtin X`, and before a
# user's function named `builtin` is gone, only what is special in posix mode (an assignment cannot be shadowed).
# Descriptors: 527 = stdout of the channel (fence), 528 = its stderr (records), 529 = /dev/null. Numbers below 256 belong to
# the user. While the command runs bash holds 527 and 528 as 530 and 531, closed in every child.

#=== FIRST
# stderr is /dev/null until the command runs: read-only variables and missing locales complain.
exec 527>&1 528>&2 529>/dev/null 2>&529
unset -v __qdr_n __qdr_p PATH HOSTNAME HOSTTYPE IFS MACHTYPE OLDPWD OPTERR OPTIND OSTYPE PS4 SHELL SHLVL TERM
# Set until the command is begun: a shell that ends with it has run nothing.
__qd_n=
@CHECK@
# Made now and only for us, so that the end of the command only appends: a file that is truncated and closed is written to the
# disk at once by some file systems.
umask 077
: >|@N@.v; : >|@N@.f
builtin trap @FINISH@ EXIT
@EARLY@

#=== CHECK
# A wiped folder is noticed before the command is read.
[[ -r @V@ && -r @F@ ]] || { printf '%s\0' $'\036X@NONCE@' nosnap >&528; exit 97; }

#=== EARLY
@SOURCEV@
[[ ${IFS@a}${LC_ALL@a} == *r* ]] && { printf '%s\0' $'\036X@NONCE@' late >&528; exit 97; }
@LOAD@

#=== LOAD
# extglob first: else one function with @(..) loses all of them. Functions named `builtin` and `exec` are not carried over.
builtin shopt -s extglob;
@SOURCEF@
((POSIXLY_CORRECT=1)); \unset -f builtin exec; \unset -v POSIXLY_CORRECT

#=== RUN
# One physical line: it is parsed as a whole before anything of the user's exists, and the user's first line is line 1.
@OPTIONS@ IFS=' ' builtin read -r __qd_n __qd_l && LC_ALL=C builtin read -r -N "$__qd_n" __qd_p && LC_ALL=C builtin read -r -N "$__qd_l" BASH_EXECUTION_STRING || builtin exit 0;
builtin eval "$__qd_p";
{ builtin unset -v __qd_n __qd_l __qd_p __qdr_m; exec 527>&- 528>&- 529>&-; @LATE@ @LATEOPTIONS@ builtin eval "$BASH_EXECUTION_STRING";
# The here-string turns BASH_XTRACEFD away before the first of these commands could be traced.
# Arithmetic, unlike an assignment, goes on where the user made the name read-only. Leaving undoes the redirections; where the user closed what is needed, or a limit forbids it, that complains to nobody.
{ __qd_r=$? __qd_o=$SHELLOPTS __qd_b=$BASHOPTS; ((POSIXLY_CORRECT=1)) || ((1)); @SHIMMED@ @QUIET@; @SAVE@; __qd_z=1; builtin : 528>&531 && builtin exit "$1"; } >/dev/null 2>&1 3<<<"$((${BASH_XTRACEFD:+BASH_XTRACEFD=}2))";
exec 2>/dev/null; builtin exit "$1"; } 527>&529 528>&529

#=== SHIMMED
# The user's trap saves the state itself, in a fork, and must find the options and variables as they are.
[[ ${__qd_u+x} ]] && { \unset -v POSIXLY_CORRECT; builtin exit "$__qd_r"; };

#=== QUIET
# Nothing of what follows may be shadowed, traced, trapped or interrupted.
\set +euxv; \trap - DEBUG ERR RETURN; \trap "" HUP INT QUIT TERM PIPE XFSZ; \unset -f builtin; \unset -v POSIXLY_CORRECT

#=== SAVE
\builtin shopt -u expand_aliases extdebug;
# Our own umask, and the user's back: .v holds nothing else yet. -N, because IFS may be read-only.
[[ $PWD -ef . ]] || { builtin umask -p >>@N@.v && builtin umask 077 && { builtin pwd -L >|@N@.p; builtin read -r -N 65536 __qd_k <@N@.p; __qd_k=${__qd_k%$'\n'}; builtin read -r -N 64 __qd_m <@N@.v; __qd_m=${__qd_m#umask }; builtin umask "${__qd_m%$'\n'}"; }; };
builtin set -- "$__qd_r" "${__qd_k-$PWD}" "${OLDPWD-}" "$__qd_o" "$__qd_b" "$!" "$BASH_SUBSHELL";
@UNSHIM@
@KEEP@;
# 528 where the redirections of the braces were undone, 531 where not (in a function, on a signal), else a file.
builtin printf '%s\0' $'\036E@NONCE@' "$@" >&@RECORD1@ || builtin printf '%s\0' $'\036E@NONCE@' "$@" >&@RECORD2@ || { builtin umask 077; builtin printf '%s\0' $'\036E@NONCE@' "$@" >|@N@.r; };
builtin printf '\036@NONCE@' >&@FENCE1@ || builtin printf '\036@NONCE@' >&@FENCE2@

#=== KEEP
{ @FUNCTIONS@; } >>@N@.f && builtin set -- "$@" ok || builtin set -- "$@" full;
{ @VARIABLES@; } >>@N@.v || builtin set -- "${@:1:7}" full

#=== CARRY
# Nothing is writable here: the state comes back as records.
builtin printf '' >&528 && builtin set -- "$@" 528 || builtin set -- "$@" 531;
{ builtin printf '\036F@NONCE@\0'; @FUNCTIONS@; builtin printf '\0'; } >&"$8";
{ builtin printf '\036V@NONCE@\0'; { @VARIABLES@; }; builtin printf '\0'; } >&"$8" && builtin set -- "${@:1:7}" ok || builtin set -- "${@:1:7}" full

#=== FUNCTIONS
builtin printf '#@NONCE@\n'; builtin declare -f;
builtin printf '#@NONCE@\n'; for __qd_k in "${!BASH_ALIASES[@]}"; do builtin printf 'BASH_ALIASES[%q]=%q\n' "$__qd_k" "${BASH_ALIASES[$__qd_k]}"; done;
# The names in order, for a merge; never run.
builtin printf 'if [[ "" ]]; then : <<"#@NONCE@"\n'; builtin declare -F; builtin printf '#@NONCE@\nfi\n'

#=== VARIABLES
# What is never carried. `unset` fails where the user made one of them read-only: then the others are named one by one.
if builtin unset -v @OWN@ @TRANSIENT@; then builtin declare -p; else
builtin mapfile -t __qd_k <<<"$(builtin compgen -A variable)"; for __qd_m in "${__qd_k[@]}"; do case " @OWN@ @TRANSIENT@ " in *" $__qd_m "*) ;; *) builtin declare -p "$__qd_m";; esac; done; fi && builtin umask -p

#=== OWN
__qd_r __qd_o __qd_b __qd_k __qd_u __qd_s __qd_n __qd_m __qd_p __qd_l __qdr_b __qdr_m __qdr_n __qdr_p POSIXLY_CORRECT _ BASH BASHPID BASH_ALIASES BASH_ARGV0 BASH_CMDS BASH_COMMAND BASH_EXECUTION_STRING BASH_LOADABLES_PATH BASH_MONOSECONDS BASH_REMATCH BASH_SUBSHELL BASH_TRAPSIG BASH_VERSION BASH_XTRACEFD COMP_WORDBREAKS DIRSTACK EPOCHREALTIME EPOCHSECONDS FUNCNAME HISTCMD LINENO PIPESTATUS RANDOM SECONDS

#=== FINISH
# The EXIT trap, for every end but the ordinary one, which has saved already (__qd_z). Only its first line is parsed then.
{ __qd_r=${__qd_r-$?} __qd_o=${__qd_o-$SHELLOPTS} __qd_b=${__qd_b-$BASHOPTS}; ((POSIXLY_CORRECT=1)) || ((1)); [[ ${__qd_z-} ]] && \exit "$__qd_r"; @QUIET@; } >/dev/null 2>&1 3<<<"$((${BASH_XTRACEFD:+BASH_XTRACEFD=}2))"
[[ ${__qd_n+x} ]] && { builtin printf '%s\0' $'\036X@NONCE@' unread >&528; builtin exit 97; } 2>/dev/null
{ @SAVE@; } 2>/dev/null

#=== ENTER
@VARS@
@DIRECTORY@
@OLDPWD@
builtin export@EXPORTS@
@GIVENS@
@DEFAULTS@
@SHIM@
((SECONDS=0))
exec @STDIN@ 2>&@ERR@

#=== GIVEN
# A variable for this command alone: where the session has it read-only nothing runs.
builtin export @GIVEN@ || { builtin printf '%s\0' $'\036X@NONCE@' 'readonly @NAME@' >&528; builtin trap - EXIT; builtin exit 97; }

#=== HERE
# With a read-only PWD or OLDPWD `cd` fails and goes there all the same.
# The session's directory, or its nearest ancestor that is still there.
builtin cd -L -- @DIR@ || [[ . -ef @DIR@ ]] || { builtin set -- @DIR@; until builtin cd -L -- "$1" || [[ . -ef $1 ]]; do builtin set -- "${1%/*}"; [[ $1 ]] || builtin set -- /; done; builtin printf '%s\0' $'\036D@NONCE@' "$PWD" >&528; builtin set --; }

#=== THERE
# A directory for this command alone: there, or nothing runs.
builtin cd -L -- @DIR@ || [[ . -ef @DIR@ ]] || { builtin set -- @DIR@; if [[ -d $1 ]]; then builtin set -- "$1" 'permission denied'; elif [[ -e $1 ]]; then builtin set -- "$1" 'not a directory'; else builtin set -- "$1" 'no such directory'; fi; builtin printf 'qd: %s: %s\n' "$1" "$2" >&@ERRFD@; builtin printf '%s\0' $'\036W@NONCE@' "$2" >&528; builtin trap - EXIT; builtin exit 126; }
builtin printf '%s\0' $'\036S@NONCE@' "$PWD" >&528

#=== SHIM
# Only when the text itself sets a trap on EXIT: bash has one EXIT trap and nothing after it, so without this function
# "trap .. EXIT; ..; exit" would lose the state. It is saved first, in a fork; then the user's trap runs natively.
if ! builtin declare -F trap >&529; then __qd_s=1
trap() {
{ builtin local - s c; builtin set +x; } 2>/dev/null
[[ $BASHPID == "$$" ]] || { builtin trap "$@"; builtin return; }
if [[ $# == 0 || ${1-} == -p ]]; then
[[ ${1-} ]] && builtin shift; (($#)) || builtin set -- EXIT {1..64} DEBUG ERR RETURN
for s do if [[ $s == EXIT || $s == 0 ]]; then [[ ${__qd_u+x} ]] && builtin printf "trap -- '%s' EXIT\n" "${__qd_u//\'/\'\\\'\'}"; else builtin trap -p "$s" 2>/dev/null; fi; done; builtin return 0
fi
if [[ $1 == -l ]]; then builtin trap -l; builtin return; fi
[[ $1 == -- ]] && builtin shift
if (($# == 1)); then c=-; else c=$1; builtin shift; fi
for s do case $s in
EXIT|exit|SIGEXIT|0) if [[ ! $c || $c == - ]]; then builtin unset -v __qd_u; builtin trap @FINISH@ EXIT; else __qd_u=$c
builtin trap "if ( builtin eval "@FINISH2@"; builtin exit \"\$1\" ) >/dev/null 2>&1; then"$'\n'"$c"$'\n'"else"$'\n'"$c"$'\n'"fi" EXIT; fi;;
*) builtin trap -- "$c" "$s" || builtin return;;
esac; done
}
fi
