# Keeps a job running on one host: makes its folder, runs files in it, and removes everything at the end.
# Commands are read line by line from stdin. When stdin ends, for whatever reason, the job ends too.
# Defined before this: job, the job's id; dir, its folder; read_counters.
# Reports go to stdout among the job's output, each on its own line that begins with a mark.

umask 077
# The reader of stdout may have ended; cleanup must still run.
trap '' PIPE

report() {
  printf '\n\001wirelane-%s %s\n' "$job" "$*"
}

# Signals every process of the job; succeeds if there was any. Processes that dropped their environment are
# found by their process group, those that left the group by their environment. One grep for all: a fork for each process of
# a large machine would take seconds.
signal() {
  found=no
  group=$(cat "$dir/group" 2>/dev/null) && kill -s "$1" -- "-$group" 2>/dev/null && found=yes
  for place in $(cd /proc && grep -slF -e "WIRELANE_JOB=$job" [0-9]*/environ); do
    kill -s "$1" "${place%/environ}" 2>/dev/null && found=yes
  done
  [ "$found" = yes ]
}

# SIGTERM first, so that programs can shut down, then SIGKILL. New processes may start meanwhile.
end_all() {
  signal TERM || return 0
  tries=0
  while [ "$tries" -lt 30 ]; do
    sleep 0.1
    signal 0 || return 0
    tries=$((tries + 1))
  done
  while [ "$tries" -lt 80 ] && signal KILL; do
    sleep 0.1
    tries=$((tries + 1))
  done
}

cleanup() {
  trap '' HUP INT TERM
  end_all
  rm -rf "$dir"
}

# Runs a file of the folder, and reports its exit code.
run() {
  {
    (
      trap - PIPE
      WIRELANE_JOB=$job
      export WIRELANE_JOB
      # A new session makes it the leader of a process group.
      exec setsid sh -c 'echo $$ >"$1/group"; exec sh "$1/$2"' sh "$dir" "$1"
    ) </dev/null
    report "exit $?"
  } &
}

# A machine that loses power does not close the connection: after ten minutes without a command the supervisor ends. The watchdog is a
# process of the job, and so ends with it.
watchdog() {
  WIRELANE_JOB=$job sh -c 'while sleep 60; do [ -z "$(find "$1" -mmin +10)" ] || kill "$2"; done' \
    sh "$dir/alive" "$$" >/dev/null 2>&1 </dev/null &
}

mkdir -m 700 "$dir" || {
  report "refused cannot create $dir"
  exit 3
}
trap cleanup EXIT
trap 'exit 3' HUP INT TERM
: >"$dir/alive"
watchdog
report ready

while IFS= read -r line; do
  # No argument of a command has spaces.
  set -- $line
  case $1 in
    # Byte by byte: some programs read more than requested, but the next bytes are commands.
    file) dd bs=1 count="$3" of="$dir/$2" 2>/dev/null ;;
    run) run "$2" ;;
    counters)
      report counters-begin
      read_counters
      report counters-end
      ;;
    alive) : >"$dir/alive" ;;
    end) break ;;
  esac
done
exit 0
