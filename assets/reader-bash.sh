# shellcheck shell=bash
# The reader of bash >= 4.1: says READY on stderr, then reads two sizes and two texts, and runs them. The second is one line, and
# so is this, so that the user's first line is line 1 in messages. @NONCE@ = 16 hex digits, one per shell.
LC_ALL=C; IFS=' ' read -r __qdr_b </proc/sys/kernel/random/boot_id; printf '\036R %s %s %s %s %s\n' @NONCE@ "$$" "${__qdr_b:--}" bash "$BASH_VERSION" >&2; unset -v LC_ALL __qdr_b; IFS=' ' read -r __qdr_n __qdr_m && LC_ALL=C read -r -N "$__qdr_n" __qdr_p && LC_ALL=C read -r -N "$__qdr_m" __qdr_m || exit 0; eval "$__qdr_p"; builtin eval "$__qdr_m"
