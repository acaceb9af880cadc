# shellcheck shell=sh
# Two processes to be ended: one below this shell, and where that can be one that has left its session. Both are named in one
# line. They end when stdin ends before a line came, and by themselves after a while; after a line only this shell ends. @ID@ = the
# cookie
QD_PROCESS=@ID@
export QD_PROCESS
sleep 20 >/dev/null 2>&1 &
a=$! b=
if command -v setsid >/dev/null 2>&1; then
setsid sleep 20 >/dev/null 2>&1 &
b=$!
fi
printf '%s %s\n' "$a" "$b"
# shellcheck disable=SC2086 # none or one word
read -r _ || { kill "$a" $b 2>/dev/null; }
exit 0
