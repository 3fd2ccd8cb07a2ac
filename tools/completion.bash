# Completion of nccl-join for bash: commands and their options, then the program and its arguments.
_nccl_join() {
  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} i
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W 'run check doctor status env config report timeline --help --version' -- "$word")
    return
  fi
  case $command in
  run | check)
    # Behind the program, words are its own.
    for ((i = 2; i < COMP_CWORD; i++)); do
      case ${COMP_WORDS[i]} in
      -n) i=$((i + 1)) ;;
      -*) ;;
      *) break ;;
      esac
    done
    if [ "$i" -lt "$COMP_CWORD" ]; then
      if declare -F _command_offset >/dev/null; then
        _command_offset "$i"
      else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
      fi
      return
    fi
    case $command,$word in
    run,-*) mapfile -t COMPREPLY < <(compgen -W '-n --loopback --no-join --no-prefix' -- "$word") ;;
    check,-*) mapfile -t COMPREPLY < <(compgen -W '--json' -- "$word") ;;
    *)
      [ "${COMP_WORDS[COMP_CWORD - 1]}" = -n ] ||
        mapfile -t COMPREPLY < <(compgen -c -- "$word" && compgen -f -- "$word")
      ;;
    esac
    ;;
  doctor) mapfile -t COMPREPLY < <(compgen -W '--json' -- "$word") ;;
  status) mapfile -t COMPREPLY < <(compgen -W '--json --watch --all' -- "$word") ;;
  config) mapfile -t COMPREPLY < <(compgen -W '--preload --include --loopback' -- "$word") ;;
  report)
    case $word in
    -*) mapfile -t COMPREPLY < <(compgen -W '--json --text --output --perfetto' -- "$word") ;;
    *) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    esac
    ;;
  timeline) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
  esac
}
complete -o filenames -o bashdefault -F _nccl_join nccl-join
