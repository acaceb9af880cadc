# shellcheck shell=sh
# shellcheck disable=SC2154  # values are filled in
# What became of a background process whose daemon was gone before it heard of it. Comment lines are dropped; @NAME@ is filled in.
# Says `P PID START BOOT` as the launch would have, `N` when it never started, `U` when that cannot be told.

#=== LOOK
umask 077
r=@ROOT@ d=@ROOT@/@ID@ p='' t='' b=''
mkdir -p -- "$r" 2>/dev/null
# Where nothing is its place is taken: a launch that is still on its way finds it taken, and starts nothing.
if mkdir -- "$d" 2>/dev/null; then echo - >"$d/exit"; echo N; exit 0; fi
[ -d "$d" ] || { echo 'E its folder cannot be looked at there'; exit 0; }
i=0 n=@NAPS@
while [ ! -s "$d/pid" ] && [ ! -e "$d/exit" ] && [ "$i" -lt "$n" ]; do i=$((i + 1)); sleep 1; done
[ -r "$d/pid" ] && IFS=' ' read -r p t b <"$d/pid"
[ "$p" ] && { printf 'P %s %s %s\n' "$p" "$t" "$b"; exit 0; }
[ -r "$d/exit" ] && IFS= read -r t <"$d/exit" && [ "$t" = - ] && { echo N; exit 0; }
echo U
